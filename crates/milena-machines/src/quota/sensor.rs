//! The measured usage of one client, or of all clients with the same tags.

use super::{Rate, TokenBucket, Window, throttle_ms};

/// The usage and the throttle times of one client.
#[derive(Debug, Clone)]
pub(super) struct Sensor {
    pub(super) usage: Usage,
    pub(super) last_used_ms: i64,
    /// The number and sum of throttle times.
    pub(super) throttles: u64,
    pub(super) throttled_ms: u64,
}

/// The arithmetic of a kind of quota.
#[derive(Debug, Clone)]
pub(super) enum Usage {
    Rate(Rate),
    Tokens(TokenBucket),
}

impl Sensor {
    pub(super) fn new(usage: Usage, now_ms: i64) -> Self {
        Self {
            usage,
            last_used_ms: now_ms,
            throttles: 0,
            throttled_ms: 0,
        }
    }

    pub(super) fn record(&mut self, window: Window, quota: f64, value: f64, now_ms: i64) {
        self.last_used_ms = now_ms;
        match &mut self.usage {
            Usage::Rate(rate) => rate.record(window, value, now_ms),
            Usage::Tokens(bucket) => bucket.record(window, quota, value, now_ms),
        }
    }

    /// The time until the usage is within the quota; 0 if it is.
    pub(super) fn excess_ms(&mut self, window: Window, quota: f64, now_ms: i64) -> i64 {
        match &mut self.usage {
            Usage::Rate(rate) => {
                let measured = rate.measure(window, now_ms);
                if measured <= quota {
                    return 0;
                }
                throttle_ms(measured, quota, rate.span_ms(window, now_ms))
            }
            Usage::Tokens(bucket) => TokenBucket::throttle_ms(bucket.measure(window, quota, now_ms), quota),
        }
    }

    /// The rate, or the tokens that are left.
    pub(super) fn measure(&mut self, window: Window, quota: f64, now_ms: i64) -> f64 {
        match &mut self.usage {
            Usage::Rate(rate) => rate.measure(window, now_ms),
            Usage::Tokens(bucket) => bucket.measure(window, quota, now_ms),
        }
    }

    /// Whether a new sensor would behave the same.
    pub(super) fn is_like_new(&mut self, window: Window, quota: Option<f64>, now_ms: i64) -> bool {
        match (&mut self.usage, quota) {
            (Usage::Rate(rate), _) => rate.is_idle(window, now_ms),
            (Usage::Tokens(bucket), Some(quota)) => bucket.is_full(window, quota, now_ms),
            (Usage::Tokens(_), None) => true,
        }
    }
}
