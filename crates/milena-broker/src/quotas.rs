//! Client quotas in force: the driver of the machine in `milena_machines::quota`.
//!
//! [`Quotas`] has the usage of all clients. A request of a client gets a [`Charge`], if there is any quota at all: without one
//! the cost of a request is a relaxed load. Each kind of quota has its own lock, which is held for one lookup.

mod charge;
mod hosts;

pub(crate) use charge::{Charge, MutationPermits, Work};
pub(crate) use hosts::HostAddresses;

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use milena_machines::quota::{ClientQuotas, ClientUsage, ConnectionRates, EntityName, QuotaKey, QuotaTable};
use tokio::time::Instant;

use crate::config::BrokerConfig;

/// The bit of `enabled` for rates of new connections.
const CONNECTIONS: u8 = 1 << QuotaKey::ConnectionCreationRate as u8;

/// The quotas of all clients, and their usage.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// One bit for each kind of quota that anyone has.
    enabled: AtomicU8,
    /// By kind, in the order of [`QuotaKey::OF_CLIENTS`].
    clients: [Mutex<ClientQuotas>; QuotaKey::OF_CLIENTS.len()],
    connections: Mutex<ConnectionRates<IpAddr>>,
    /// The origin of the times that the machines get: they must not go back, as the time of day may.
    start: Instant,
}

impl Quotas {
    pub(crate) fn new(config: &BrokerConfig) -> Self {
        let clients_max = config.limits.quota_clients;
        let clients = QuotaKey::OF_CLIENTS.map(|key| {
            let window = match key {
                QuotaKey::ControllerMutationRate => config.quotas.controller_window,
                _ => config.quotas.window,
            };
            Mutex::new(ClientQuotas::new(key, window, clients_max))
        });
        Self {
            enabled: AtomicU8::new(0),
            clients,
            connections: Mutex::new(ConnectionRates::new(config.quotas.window, clients_max)),
            start: Instant::now(),
        }
    }

    /// Puts quotas in force. `hosts` has the addresses of names that connection rates are set for.
    pub(crate) fn set(&self, table: &QuotaTable, hosts: &HostAddresses) {
        let mut enabled = 0;
        for (key, quotas) in QuotaKey::OF_CLIENTS.into_iter().zip(&self.clients) {
            let mut quotas = lock(quotas);
            quotas.set_limits(table.limits(key));
            enabled |= u8::from(quotas.is_enabled()) << key as u8;
        }
        let (mut default, mut limits) = (None, BTreeMap::new());
        for (name, rate) in table.connection_rates() {
            match name {
                EntityName::Default => default = Some(rate),
                EntityName::Name(host) => limits.extend(hosts.of(host).iter().map(|address| (*address, rate))),
            }
        }
        let mut connections = lock(&self.connections);
        connections.set_limits(default, limits);
        enabled |= u8::from(connections.is_enabled()) * CONNECTIONS;
        drop(connections);
        self.enabled.store(enabled, Ordering::Relaxed);
    }

    /// Whether any user or client id has a quota.
    pub(crate) fn has_any(&self) -> bool {
        self.enabled.load(Ordering::Relaxed) & !CONNECTIONS != 0
    }

    /// Counts a new connection. If its address has made too many, the result is the time for which it is held before it is
    /// closed, without a byte being read.
    pub(crate) fn check_connection(&self, address: IpAddr) -> Result<(), Duration> {
        if self.enabled.load(Ordering::Relaxed) & CONNECTIONS == 0 {
            return Ok(());
        }
        let recorded = lock(&self.connections).record(address.to_canonical(), self.now_ms());
        recorded.map_err(|hold_ms| Duration::from_millis(u64::try_from(hold_ms).unwrap_or(0)))
    }

    /// The usage of all clients with a quota, by kind.
    pub(crate) fn usage(&self) -> Vec<(QuotaKey, Vec<ClientUsage>)> {
        let now_ms = self.now_ms();
        let kinds = QuotaKey::OF_CLIENTS.into_iter().zip(&self.clients);
        kinds.map(|(key, quotas)| (key, lock(quotas).usage(now_ms))).collect()
    }

    /// The number of kinds of quotas whose clients share a measurement, because there are too many.
    pub(crate) fn overflows(&self) -> usize {
        let is_overflowing = |quotas: &&Mutex<ClientQuotas>| lock(quotas).is_overflowing();
        self.clients.iter().filter(is_overflowing).count()
    }

    fn is_enabled(&self, key: QuotaKey) -> bool {
        self.enabled.load(Ordering::Relaxed) & (1 << key as u8) != 0
    }

    /// The usage of one kind; `None` if there is no quota of that kind.
    fn of(&self, key: QuotaKey) -> Option<MutexGuard<'_, ClientQuotas>> {
        if !self.is_enabled(key) {
            return None;
        }
        self.clients.get(key as usize).map(lock)
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.start.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
