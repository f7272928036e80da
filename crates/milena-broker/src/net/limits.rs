//! Limits on the number of connections: in all, and from one address.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::config::BrokerConfig;

/// A waiter checks again after this time, because the limit may change while no connection opens or closes.
const RECHECK: Duration = Duration::from_secs(1);

/// The open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    by_address: Mutex<HashMap<IpAddr, usize>>,
    ended: Notify,
}

/// One open connection; dropping this ends its count.
#[derive(Debug)]
pub(super) struct ConnectionCount {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// Waits until `max.connections` allows one more. Meanwhile new ones wait in the backlog of the socket, as with Kafka.
    pub(super) async fn room(&self, config: impl Fn() -> Arc<BrokerConfig>) {
        loop {
            let ended = self.ended.notified();
            let present: usize = self.by_address().values().sum();
            if present < at_most(config().max_connections) {
                return;
            }
            let _ = tokio::time::timeout(RECHECK, ended).await;
        }
    }

    /// Counts a connection; `None` if its address has reached its limit.
    pub(super) async fn count(self: &Arc<Self>, peer: SocketAddr, config: &BrokerConfig) -> Option<ConnectionCount> {
        let address = peer.ip().to_canonical();
        let limit = limit_of(address, config).await;
        let mut by_address = self.by_address();
        let present = by_address.get(&address).copied().unwrap_or(0);
        if present >= limit {
            return None;
        }
        by_address.insert(address, present + 1);
        Some(ConnectionCount {
            connections: Arc::clone(self),
            address,
        })
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        let mut by_address = self.connections.by_address();
        if let Some(present) = by_address.get_mut(&self.address) {
            *present -= 1;
            if *present == 0 {
                by_address.remove(&self.address);
            }
        }
        drop(by_address);
        self.connections.ended.notify_waiters();
    }
}

async fn limit_of(address: IpAddr, config: &BrokerConfig) -> usize {
    for (host, limit) in &config.max_connections_per_ip_overrides {
        if is_host(host, address).await {
            return at_most(*limit);
        }
    }
    at_most(config.max_connections_per_ip)
}

async fn is_host(host: &str, address: IpAddr) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(parsed) = bare.parse::<IpAddr>() {
        return parsed.to_canonical() == address;
    }
    match tokio::net::lookup_host((host, 0)).await {
        Ok(mut found) => found.any(|found| found.ip().to_canonical() == address),
        Err(error) => {
            tracing::warn!(
                event = "connection_limit_host_unknown",
                host,
                %error,
                "max.connections.per.ip.overrides names a host that cannot be resolved"
            );
            false
        }
    }
}

fn at_most(limit: i32) -> usize {
    usize::try_from(limit).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{BrokerOverrides, RawConfig};

    fn config(name: &str, value: &str) -> Arc<BrokerConfig> {
        let settings = RawConfig::from([(name.to_owned(), value.to_owned())]);
        Arc::new(BrokerConfig::resolve(BrokerOverrides::fixed(settings)).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_above_the_limit_waits_until_another_closes() {
        let connections = Arc::new(Connections::default());
        let config = config("max.connections", "2");
        let peer = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let first = connections.count(peer(1), &config).await.unwrap();
        connections.room(|| Arc::clone(&config)).await;
        let _second = connections.count(peer(2), &config).await.unwrap();
        let room = connections.room(|| Arc::clone(&config));
        let mut room = std::pin::pin!(room);
        assert!(tokio::time::timeout(RECHECK * 5, &mut room).await.is_err());
        drop(first);
        room.await;
    }

    #[tokio::test]
    async fn an_address_with_an_override_has_its_own_limit() {
        let config = config(
            "max.connections.per.ip.overrides",
            "localhost:3,[2001:db8::1]:4,10.0.0.1:5",
        );
        for (address, limit) in [
            ("127.0.0.1", 3),
            ("2001:db8::1", 4),
            ("10.0.0.1", 5),
            ("10.0.0.2", i32::MAX as usize),
        ] {
            assert_eq!(limit_of(address.parse().unwrap(), &config).await, limit, "{address}");
        }
    }
}
