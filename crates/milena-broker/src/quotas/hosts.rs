//! Addresses of the hosts that connection rates are set for.

use std::{
    collections::BTreeMap,
    net::{IpAddr, ToSocketAddrs},
};

/// The addresses of host names. Names are resolved before a lock is taken, because that may take seconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostAddresses(BTreeMap<String, Vec<IpAddr>>);

impl HostAddresses {
    /// Resolves hosts; those that are unknown have no address. It blocks.
    pub(crate) fn resolve<'a>(hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut addresses = Self::default();
        for host in hosts {
            addresses.add(host);
        }
        addresses
    }

    fn add(&mut self, host: &str) {
        if !self.0.contains_key(host) {
            self.0.insert(host.to_owned(), addresses_of(host));
        }
    }

    pub(crate) fn of(&self, host: &str) -> &[IpAddr] {
        self.0.get(host).map_or(&[], Vec::as_slice)
    }
}

fn addresses_of(host: &str) -> Vec<IpAddr> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return vec![address.to_canonical()];
    }
    match (host, 0).to_socket_addrs() {
        Ok(found) => found.map(|found| found.ip().to_canonical()).collect(),
        Err(_) => vec![],
    }
}
