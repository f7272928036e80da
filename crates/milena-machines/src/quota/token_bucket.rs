//! A token bucket: bursts are allowed up to its size, and tokens return at the rate of the quota.

use super::Window;

/// The tokens of one client. It holds at most the tokens of a whole window, and may be overdrawn by one request.
#[derive(Debug, Clone, Default)]
pub struct TokenBucket {
    tokens: f64,
    /// `None` until it is used first: a new bucket is full.
    updated_ms: Option<i64>,
}

impl TokenBucket {
    /// The tokens that are left; negative if it is overdrawn.
    pub fn measure(&mut self, window: Window, quota: f64, now_ms: i64) -> f64 {
        let size = size(window, quota);
        self.tokens = match self.updated_ms {
            None => size,
            Some(updated_ms) => (self.tokens + quota * ((now_ms - updated_ms).max(0) as f64 / 1000.0)).min(size),
        };
        self.updated_ms = Some(now_ms);
        self.tokens
    }

    /// Takes tokens, whether it has them or not; a negative number gives them back.
    pub fn record(&mut self, window: Window, quota: f64, tokens: f64, now_ms: i64) {
        let left = self.measure(window, quota, now_ms);
        self.tokens = (left - tokens).min(size(window, quota));
    }

    /// The time until an overdrawn bucket has no debt; 0 if it has none now.
    pub fn throttle_ms(tokens: f64, quota: f64) -> i64 {
        ((-tokens / quota * 1000.0).round() as i64).max(0)
    }

    /// Whether it is full, so that it equals a new one.
    pub fn is_full(&mut self, window: Window, quota: f64, now_ms: i64) -> bool {
        self.measure(window, quota, now_ms) >= size(window, quota)
    }
}

fn size(window: Window, quota: f64) -> f64 {
    window.span_ms() as f64 / 1000.0 * quota
}
