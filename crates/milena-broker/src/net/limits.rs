//! Limits on connections: in all, on one listener, from one address, and on the rate of new ones.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytestring::ByteString;
use tokio::{sync::Notify, time::Instant};

use crate::config::{BrokerConfig, ListenerLimits};

/// A waiter checks again after this time, because the limit may change while no connection opens or closes.
const RECHECK: Duration = Duration::from_secs(1);

/// The open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    counts: Mutex<Counts>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_address: HashMap<IpAddr, usize>,
    by_listener: HashMap<ByteString, usize>,
    /// New connections of the broker, and of its listeners.
    created: CreationRate,
    created_by_listener: HashMap<ByteString, CreationRate>,
}

/// One open connection; dropping this ends its count.
#[derive(Debug)]
pub(super) struct ConnectionCount {
    connections: Arc<Connections>,
    address: IpAddr,
    listener: ByteString,
}

impl Connections {
    /// Waits until the limits of the broker and of the listener allow one more connection. Meanwhile new ones wait in the
    /// backlog of the socket, as with Kafka.
    pub(super) async fn room(&self, listener: &ByteString, config: impl Fn() -> Arc<BrokerConfig>) {
        loop {
            let ended = self.ended.notified();
            let wait = self.counts().wait(listener, &config(), Instant::now());
            if wait.is_zero() {
                return;
            }
            let _ = tokio::time::timeout(wait, ended).await;
        }
    }

    /// Counts a connection; `None` if its address has reached its limit.
    pub(super) async fn count(
        self: &Arc<Self>,
        peer: SocketAddr,
        listener: &ByteString,
        config: &BrokerConfig,
    ) -> Option<ConnectionCount> {
        let address = peer.ip().to_canonical();
        let limit = limit_of(address, config).await;
        let mut counts = self.counts();
        counts.created(listener, config, Instant::now());
        let present = counts.by_address.get(&address).copied().unwrap_or(0);
        if present >= limit {
            return None;
        }
        counts.by_address.insert(address, present + 1);
        counts.total += 1;
        *counts.by_listener.entry(listener.clone()).or_default() += 1;
        Some(ConnectionCount {
            connections: Arc::clone(self),
            address,
            listener: listener.clone(),
        })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// The time until another connection may be accepted, or until the limits are worth another look.
    fn wait(&mut self, listener: &ByteString, config: &BrokerConfig, now: Instant) -> Duration {
        let limits = limits_of(listener, config);
        let on_listener = self.by_listener.get(listener).copied().unwrap_or(0);
        let is_full = self.total >= at_most(config.max_connections)
            || limits.is_some_and(|limits| on_listener >= at_most(limits.max_connections));
        if is_full {
            return RECHECK;
        }
        let mut wait = self.created.wait(config.max_connection_creation_rate, now);
        if let Some(limits) = limits
            && let Some(created) = self.created_by_listener.get_mut(listener)
        {
            wait = wait.max(created.wait(limits.max_connection_creation_rate, now));
        }
        wait.min(RECHECK)
    }

    /// Records a new connection for the rates.
    fn created(&mut self, listener: &ByteString, config: &BrokerConfig, now: Instant) {
        self.created.record(config.max_connection_creation_rate, now);
        if let Some(limits) = limits_of(listener, config) {
            let created = self.created_by_listener.entry(listener.clone()).or_default();
            created.record(limits.max_connection_creation_rate, now);
        }
    }
}

fn limits_of<'a>(listener: &str, config: &'a BrokerConfig) -> Option<&'a ListenerLimits> {
    config.listener_limits.iter().find(|limits| limits.listener == listener)
}

/// A bucket of new connections, which holds those of one second.
#[derive(Debug, Default)]
struct CreationRate {
    /// Connections that may still be created, and when that was computed; `None` before the first one.
    bucket: Option<(f64, Instant)>,
}

impl CreationRate {
    fn record(&mut self, rate: i32, now: Instant) {
        if rate == i32::MAX {
            // No limit; a later one begins with a full bucket.
            self.bucket = None;
            return;
        }
        let left = self.refill(rate, now);
        self.bucket = Some((left - 1.0, now));
    }

    /// The time until one more may be created.
    fn wait(&mut self, rate: i32, now: Instant) -> Duration {
        if rate == i32::MAX {
            return Duration::ZERO;
        }
        let left = self.refill(rate, now);
        self.bucket = Some((left, now));
        if left >= 1.0 {
            Duration::ZERO
        } else if rate <= 0 {
            RECHECK
        } else {
            Duration::try_from_secs_f64((1.0 - left) / f64::from(rate)).unwrap_or(RECHECK)
        }
    }

    fn refill(&self, rate: i32, now: Instant) -> f64 {
        let rate = f64::from(rate);
        match self.bucket {
            None => rate,
            Some((left, at)) => (left + rate * now.duration_since(at).as_secs_f64()).min(rate),
        }
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        let mut counts = self.connections.counts();
        counts.total = counts.total.saturating_sub(1);
        if let Some(present) = counts.by_listener.get_mut(&self.listener) {
            *present = present.saturating_sub(1);
        }
        if let Some(present) = counts.by_address.get_mut(&self.address) {
            *present -= 1;
            if *present == 0 {
                counts.by_address.remove(&self.address);
            }
        }
        drop(counts);
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

    static LISTENER: ByteString = ByteString::from_static("PLAINTEXT");

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_above_the_limit_waits_until_another_closes() {
        for key in ["max.connections", "listener.name.plaintext.max.connections"] {
            let connections = Arc::new(Connections::default());
            let config = config(key, "2");
            let config = || Arc::clone(&config);
            let first = connections.count(peer(1), &LISTENER, &config()).await.unwrap();
            connections.room(&LISTENER, config).await;
            let _second = connections.count(peer(2), &LISTENER, &config()).await.unwrap();
            let room = connections.room(&LISTENER, config);
            let mut room = std::pin::pin!(room);
            assert!(tokio::time::timeout(RECHECK * 5, &mut room).await.is_err(), "{key}");
            drop(first);
            room.await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn new_connections_are_accepted_at_the_rate_of_the_broker_and_of_the_listener() {
        for key in [
            "max.connection.creation.rate",
            "listener.name.plaintext.max.connection.creation.rate",
        ] {
            let connections = Arc::new(Connections::default());
            let config = config(key, "10");
            let config = || Arc::clone(&config);
            let start = Instant::now();
            for port in 0..30 {
                connections.room(&LISTENER, config).await;
                drop(connections.count(peer(port), &LISTENER, &config()).await.unwrap());
            }
            // A second's worth at once, then one every 100 ms.
            let took = start.elapsed().as_millis();
            assert!((1_990..2_100).contains(&took), "{key}: {took} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_does_not_count_the_connections_of_another() {
        let connections = Arc::new(Connections::default());
        let config = config("listener.name.plaintext.max.connections", "1");
        let _first = connections.count(peer(1), &LISTENER, &config).await.unwrap();
        connections.room(&"OTHER".into(), || Arc::clone(&config)).await;
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
