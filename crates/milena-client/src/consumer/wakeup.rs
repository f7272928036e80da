//! What wakes an application that waits in the consumer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Ends a call that waits: the one thing that other tasks may do to a consumer. Clones do the same.
#[derive(Debug, Clone, Default)]
pub struct WakeupHandle {
    signal: Arc<WakeupSignal>,
}

impl WakeupHandle {
    /// The `poll` that waits now returns [`PollError::Wakeup`](super::PollError::Wakeup); without one, the next one does.
    /// Records are never lost by it.
    pub fn wakeup(&self) {
        self.signal.wakeup.store(true, Ordering::Release);
        self.signal.notify();
    }

    /// Whether somebody asked to end a call; asking is over then. For consumers that stand in for the real one in tests.
    pub fn take_wakeup(&self) -> bool {
        self.signal.take_wakeup()
    }

    /// Returns when somebody has asked, or has asked before. For consumers that stand in for the real one in tests.
    pub async fn woken(&self) {
        self.signal.notified().await;
    }

    pub(crate) fn signal(&self) -> &Arc<WakeupSignal> {
        &self.signal
    }
}

/// Rings when there may be something to do for the application. Only one task waits for it: who owns the consumer.
#[derive(Debug, Default)]
pub(crate) struct WakeupSignal {
    wakeup: AtomicBool,
    notify: Notify,
}

impl WakeupSignal {
    pub(crate) fn notify(&self) {
        self.notify.notify_one();
    }

    /// Returns when it has been rung since the last time.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }

    /// Whether somebody asked to end the call; asking is over then.
    pub(crate) fn take_wakeup(&self) -> bool {
        // Most calls find nothing, and a load costs less than a swap.
        self.wakeup.load(Ordering::Acquire) && self.wakeup.swap(false, Ordering::AcqRel)
    }
}
