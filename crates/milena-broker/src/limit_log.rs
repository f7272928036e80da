//! A log of requests that were refused because of a limit. Many errors of the protocol have no text to name the setting.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The shortest time between two lines: a hostile client must not fill the log.
const INTERVAL_MS: i64 = 1_000;

/// Counts refusals, and logs at most one in a second.
#[derive(Debug)]
pub(crate) struct LimitLog {
    logged_ms: AtomicI64,
    refusals: AtomicU64,
}

impl Default for LimitLog {
    fn default() -> Self {
        Self {
            logged_ms: AtomicI64::new(i64::MIN),
            refusals: AtomicU64::new(0),
        }
    }
}

impl LimitLog {
    /// Notes a refusal; `reason` names the setting.
    pub(crate) fn refused(&self, reason: &str, now_ms: i64) {
        let refusals = self.refusals.fetch_add(1, Ordering::Relaxed) + 1;
        let logged_ms = self.logged_ms.load(Ordering::Relaxed);
        if now_ms.saturating_sub(logged_ms) < INTERVAL_MS {
            return;
        }
        self.logged_ms.store(now_ms, Ordering::Relaxed);
        tracing::warn!(
            event = "limit_exceeded",
            reason,
            refusals,
            "request refused because of a limit"
        );
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }
}
