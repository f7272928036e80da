//! Limits on the rate of new connections, for each address.

use std::collections::BTreeMap;

use super::{Rate, Window, throttle_ms};

/// The rates of new connections by address. `A` is the address.
#[derive(Debug)]
pub struct ConnectionRates<A> {
    window: Window,
    /// Connections per second of each address without a quota of its own.
    default: Option<f64>,
    limits: BTreeMap<A, f64>,
    rates: BTreeMap<A, Rate>,
    rates_max: usize,
    /// The rate of all addresses for which there was no room.
    overflow: Rate,
    swept_ms: Option<i64>,
}

impl<A: Ord + Copy> ConnectionRates<A> {
    pub fn new(window: Window, rates_max: usize) -> Self {
        Self {
            window,
            default: None,
            limits: BTreeMap::new(),
            rates: BTreeMap::new(),
            rates_max,
            overflow: Rate::default(),
            swept_ms: None,
        }
    }

    /// Replaces all quotas.
    pub fn set_limits(&mut self, default: Option<f64>, limits: BTreeMap<A, f64>) {
        (self.default, self.limits) = (default, limits);
        if !self.is_enabled() {
            self.rates.clear();
        }
    }

    pub fn is_enabled(&self) -> bool {
        self.default.is_some() || !self.limits.is_empty()
    }

    /// Counts a connection. If its address has made too many, it is not counted, and the result is the time for which to
    /// hold it before it is closed: one sample at most.
    pub fn record(&mut self, address: A, now_ms: i64) -> Result<(), i64> {
        let Some(quota) = self.limits.get(&address).copied().or(self.default) else {
            return Ok(());
        };
        let window = self.window;
        let rate = self.rate(address, now_ms);
        rate.record(window, 1.0, now_ms);
        let measured = rate.measure(window, now_ms);
        if measured <= quota {
            return Ok(());
        }
        let throttle_ms = throttle_ms(measured, quota, rate.span_ms(window, now_ms)).min(window.sample_ms);
        if throttle_ms <= 0 {
            return Ok(());
        }
        rate.record(window, -1.0, now_ms);
        Err(throttle_ms)
    }

    /// The number of addresses that are measured on their own.
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    fn rate(&mut self, address: A, now_ms: i64) -> &mut Rate {
        if !self.rates.contains_key(&address) {
            self.sweep(now_ms);
            if self.rates.len() >= self.rates_max {
                return &mut self.overflow;
            }
        }
        self.rates.entry(address).or_default()
    }

    /// Forgets addresses without a connection in the window, at most once for each sample.
    fn sweep(&mut self, now_ms: i64) {
        let window = self.window;
        if self
            .swept_ms
            .is_some_and(|swept_ms| now_ms - swept_ms < window.sample_ms)
        {
            return;
        }
        self.swept_ms = Some(now_ms);
        self.rates.retain(|_, rate| !rate.is_idle(window, now_ms));
    }
}
