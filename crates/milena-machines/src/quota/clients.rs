//! Enforcement of one kind of quota for users and client ids.

use std::collections::BTreeMap;

use bytestring::ByteString;

use super::{
    Limits, QuotaKey, Rate, Tags, TokenBucket, Window,
    sensor::{Sensor, Usage},
};

/// A client that was idle for this long is forgotten.
const IDLE_MAX_MS: i64 = 3_600_000;
/// The shortest time between two searches for clients to forget.
const SWEEP_INTERVAL_MS: i64 = 1_000;

/// The user and the client id of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientName<'a> {
    pub user: &'a str,
    pub client_id: &'a str,
}

/// The decision about a response that can be left empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusable {
    Accepted { throttle_ms: i64 },
    Refused { throttle_ms: i64 },
}

/// The usage of clients with the same tags at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientUsage {
    /// Empty for all users, as is the client id.
    pub user: ByteString,
    pub client_id: ByteString,
    /// The rate per second, or the tokens that are left.
    pub measured: f64,
    /// `None` if the quota was removed.
    pub quota: Option<f64>,
    pub throttles: u64,
    pub throttled_ms: u64,
}

/// One kind of quota: its limits, and the usage of each client that has one.
#[derive(Debug)]
pub struct ClientQuotas {
    key: QuotaKey,
    window: Window,
    limits: Limits,
    /// By user, then by client id.
    sensors: BTreeMap<ByteString, BTreeMap<ByteString, Sensor>>,
    sensors_len: usize,
    sensors_max: usize,
    /// The usage of all clients for which there was no room.
    overflow: Option<Sensor>,
    swept_ms: i64,
}

impl ClientQuotas {
    pub fn new(key: QuotaKey, window: Window, sensors_max: usize) -> Self {
        Self {
            key,
            window,
            limits: Limits::default(),
            sensors: BTreeMap::new(),
            sensors_len: 0,
            sensors_max,
            overflow: None,
            swept_ms: i64::MIN,
        }
    }

    /// Replaces all quotas. Usage is kept: a changed quota applies to what was measured before.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        if self.limits.is_empty() {
            self.sensors.clear();
            self.sensors_len = 0;
            self.overflow = None;
        }
    }

    /// Whether there is any quota of this kind.
    pub fn is_enabled(&self) -> bool {
        !self.limits.is_empty()
    }

    /// The quota of a client.
    pub fn limit(&self, client: ClientName<'_>) -> Option<f64> {
        self.limits.limit(self.limits.tags(client.user, client.client_id))
    }

    /// The most that a client can use at once without being throttled for certain.
    pub fn max_in_window(&self, client: ClientName<'_>) -> Option<f64> {
        Some(self.limit(client)? * self.window.full_seconds())
    }

    /// Records usage and returns the throttle time in milliseconds.
    pub fn record(&mut self, client: ClientName<'_>, value: f64, now_ms: i64) -> i64 {
        let (window, bound_ms) = (self.window, self.throttle_ms_max());
        let Some((sensor, quota)) = self.sensor(client, now_ms) else {
            return 0;
        };
        sensor.record(window, quota, value, now_ms);
        sensor.excess_ms(window, quota, now_ms).min(bound_ms)
    }

    /// Records the usage of a response that can be left empty instead, and decides about that.
    ///
    /// If it is refused, nothing is recorded. A response is not refused if the client has used nothing in the window: one
    /// batch may be larger than the whole quota, and refusing it for ever would stop the client.
    pub fn record_refusable(&mut self, client: ClientName<'_>, value: f64, now_ms: i64) -> Refusable {
        let window = self.window;
        let Some((sensor, quota)) = self.sensor(client, now_ms) else {
            return Refusable::Accepted { throttle_ms: 0 };
        };
        let is_first = sensor.measure(window, quota, now_ms) <= 0.0;
        sensor.record(window, quota, value, now_ms);
        match sensor.excess_ms(window, quota, now_ms) {
            throttle_ms if throttle_ms == 0 || is_first => Refusable::Accepted { throttle_ms },
            throttle_ms => {
                sensor.record(window, quota, -value, now_ms);
                Refusable::Refused { throttle_ms }
            }
        }
    }

    /// Records usage that counts for later requests only; a negative value takes back what was recorded.
    pub fn record_unchecked(&mut self, client: ClientName<'_>, value: f64, now_ms: i64) {
        let window = self.window;
        if let Some((sensor, quota)) = self.sensor(client, now_ms) {
            sensor.record(window, quota, value, now_ms);
        }
    }

    /// Records usage unless the client is over its quota already; then it returns the throttle time.
    ///
    /// One request may exceed the quota by any amount: the next one pays for it.
    pub fn record_strictly(&mut self, client: ClientName<'_>, value: f64, now_ms: i64) -> Result<(), i64> {
        let window = self.window;
        let Some((sensor, quota)) = self.sensor(client, now_ms) else {
            return Ok(());
        };
        match sensor.excess_ms(window, quota, now_ms) {
            0 => {
                sensor.record(window, quota, value, now_ms);
                Ok(())
            }
            excess_ms => Err(excess_ms),
        }
    }

    /// Counts a throttle time that a client was given.
    pub fn count_throttle(&mut self, client: ClientName<'_>, throttle_ms: u64, now_ms: i64) {
        if let Some((sensor, _)) = self.sensor(client, now_ms) {
            sensor.throttles += 1;
            sensor.throttled_ms += throttle_ms;
        }
    }

    /// The usage of all clients that are measured.
    pub fn usage(&mut self, now_ms: i64) -> Vec<ClientUsage> {
        let Self {
            limits,
            sensors,
            window,
            ..
        } = self;
        let mut usage = vec![];
        for (user, clients) in sensors {
            for (client_id, sensor) in clients {
                let quota = limits.limit(Tags { user, client_id });
                usage.push(ClientUsage {
                    user: user.clone(),
                    client_id: client_id.clone(),
                    measured: sensor.measure(*window, quota.unwrap_or(f64::MAX), now_ms),
                    quota,
                    throttles: sensor.throttles,
                    throttled_ms: sensor.throttled_ms,
                });
            }
        }
        usage
    }

    /// The number of clients that are measured on their own.
    pub fn sensors_len(&self) -> usize {
        self.sensors_len
    }

    /// Whether clients share one measurement, because there are too many.
    pub fn is_overflowing(&self) -> bool {
        self.overflow.is_some()
    }

    /// Byte rates throttle for as long as it takes; request time for one sample at most, so that a client can heartbeat.
    fn throttle_ms_max(&self) -> i64 {
        match self.key {
            QuotaKey::RequestPercentage => self.window.sample_ms,
            _ => i64::MAX,
        }
    }

    /// The sensor of a client and its quota; `None` if it has no quota.
    fn sensor(&mut self, client: ClientName<'_>, now_ms: i64) -> Option<(&mut Sensor, f64)> {
        let tags = self.limits.tags(client.user, client.client_id);
        let quota = self.limits.limit(tags)?;
        let is_known = |clients: &BTreeMap<ByteString, Sensor>| clients.contains_key(tags.client_id);
        if !self.sensors.get(tags.user).is_some_and(is_known) && !self.has_room(now_ms) {
            let overflow = self.overflow.get_or_insert_with(|| new_sensor(self.key, now_ms));
            return Some((overflow, quota));
        }
        Some((self.own_sensor(tags, now_ms)?, quota))
    }

    fn own_sensor(&mut self, tags: Tags<'_>, now_ms: i64) -> Option<&mut Sensor> {
        if !self.sensors.contains_key(tags.user) {
            self.sensors.insert(ByteString::from(tags.user), BTreeMap::new());
        }
        let clients = self.sensors.get_mut(tags.user)?;
        if !clients.contains_key(tags.client_id) {
            self.sensors_len += 1;
            clients.insert(ByteString::from(tags.client_id), new_sensor(self.key, now_ms));
        }
        clients.get_mut(tags.client_id)
    }

    /// Whether one more client can be measured, after clients that were idle for long are forgotten.
    fn has_room(&mut self, now_ms: i64) -> bool {
        let is_full = self.sensors_len >= self.sensors_max;
        let interval_ms = if is_full { SWEEP_INTERVAL_MS } else { IDLE_MAX_MS / 10 };
        if self.swept_ms == i64::MIN || now_ms - self.swept_ms >= interval_ms {
            self.swept_ms = now_ms;
            self.sweep(now_ms, is_full);
        }
        self.sensors_len < self.sensors_max
    }

    /// Forgets clients that were idle for an hour; if there is no room, also those whose usage is out of the window.
    fn sweep(&mut self, now_ms: i64, is_full: bool) {
        let (window, limits) = (self.window, &self.limits);
        self.sensors.retain(|user, clients| {
            clients.retain(|client_id, sensor| {
                let is_old = now_ms - sensor.last_used_ms >= IDLE_MAX_MS;
                let quota = limits.limit(Tags { user, client_id });
                !(is_old || is_full && sensor.is_like_new(window, quota, now_ms))
            });
            !clients.is_empty()
        });
        self.sensors_len = self.sensors.values().map(BTreeMap::len).sum();
        let is_idle = |sensor: &mut Sensor| sensor.is_like_new(window, None, now_ms);
        if self.sensors_len < self.sensors_max && self.overflow.as_mut().is_some_and(is_idle) {
            self.overflow = None;
        }
    }
}

fn new_sensor(key: QuotaKey, now_ms: i64) -> Sensor {
    let usage = match key {
        QuotaKey::ControllerMutationRate => Usage::Tokens(TokenBucket::default()),
        _ => Usage::Rate(Rate::default()),
    };
    Sensor::new(usage, now_ms)
}
