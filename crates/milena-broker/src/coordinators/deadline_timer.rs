//! One timer for the deadlines of all coordinators.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use tokio::sync::Notify;

/// The longest sleep, even if the next deadline is later: the wall clock may jump.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// The earliest deadline of all coordinators.
#[derive(Debug)]
pub(crate) struct DeadlineTimer {
    /// The deadline that the sleeping task knows.
    deadline_ms: AtomicI64,
    earlier: Notify,
}

impl Default for DeadlineTimer {
    fn default() -> Self {
        Self {
            deadline_ms: AtomicI64::new(i64::MAX),
            earlier: Notify::new(),
        }
    }
}

impl DeadlineTimer {
    /// Registers the deadline of a machine; the sleeping task wakes if it is earlier than the one it knows.
    pub(crate) fn no_later_than(&self, deadline_ms: Option<i64>) {
        let Some(deadline_ms) = deadline_ms else {
            return;
        };
        if self.deadline_ms.fetch_min(deadline_ms, Ordering::AcqRel) > deadline_ms {
            self.earlier.notify_one();
        }
    }

    /// Sleeps until the deadline, or an earlier one that is registered meanwhile.
    pub(super) async fn sleep_until(&self, deadline_ms: Option<i64>, now_ms: impl Fn() -> i64) {
        self.no_later_than(deadline_ms);
        loop {
            let deadline_ms = self.deadline_ms.load(Ordering::Acquire);
            let left = u64::try_from(deadline_ms.saturating_sub(now_ms())).unwrap_or(0);
            if left == 0 {
                break;
            }
            let left = Duration::from_millis(left).min(SLEEP_MAX);
            // Woken or not, the loop checks the deadline again.
            let _ = tokio::time::timeout(left, self.earlier.notified()).await;
        }
        // The caller polls all machines now, and each registers its deadline again.
        self.deadline_ms.store(i64::MAX, Ordering::Release);
    }
}
