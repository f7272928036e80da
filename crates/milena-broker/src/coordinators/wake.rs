//! The one alarm of all coordinators.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use tokio::sync::Notify;

/// However far the next deadline is, somebody looks again after this time: the wall clock may jump.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// When the coordinators want to be woken.
#[derive(Debug)]
pub(crate) struct Wake {
    /// What the sleeper has been told.
    deadline_ms: AtomicI64,
    earlier: Notify,
}

impl Default for Wake {
    fn default() -> Self {
        Self {
            deadline_ms: AtomicI64::new(i64::MAX),
            earlier: Notify::new(),
        }
    }
}

impl Wake {
    /// A machine has this deadline now; the sleeper is told only if it comes before what it knows.
    pub(crate) fn no_later_than(&self, deadline_ms: Option<i64>) {
        let Some(deadline_ms) = deadline_ms else {
            return;
        };
        if self.deadline_ms.fetch_min(deadline_ms, Ordering::AcqRel) > deadline_ms {
            self.earlier.notify_one();
        }
    }

    /// Sleeps until the deadline, or until there is an earlier one.
    pub(super) async fn sleep_until(&self, deadline_ms: Option<i64>, now_ms: impl Fn() -> i64) {
        self.no_later_than(deadline_ms);
        loop {
            let deadline_ms = self.deadline_ms.load(Ordering::Acquire);
            let left = u64::try_from(deadline_ms.saturating_sub(now_ms())).unwrap_or(0);
            if left == 0 {
                break;
            }
            let left = Duration::from_millis(left).min(SLEEP_MAX);
            // Woken or not, it looks again.
            let _ = tokio::time::timeout(left, self.earlier.notified()).await;
        }
        // From here on every machine must say again what it waits for; the caller asks them all.
        self.deadline_ms.store(i64::MAX, Ordering::Release);
    }
}
