//! The wakeup of an application that waits in the consumer.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// Interrupts a waiting call of a consumer from another task. Clones do the same.
#[derive(Debug, Clone, Default)]
pub struct WakeupHandle {
    signal: Arc<WakeupSignal>,
}

impl WakeupHandle {
    /// Interrupts the waiting `poll`, or the next one, with [`PollError::Wakeup`](super::PollError::Wakeup). No record
    /// is lost.
    pub fn wakeup(&self) {
        self.signal.wakeup.store(true, Ordering::Release);
        self.signal.notify();
    }

    /// Returns whether a wakeup is pending, and clears it. For test doubles of the consumer.
    pub fn take_wakeup(&self) -> bool {
        self.signal.take_wakeup()
    }

    /// Waits for a wakeup, or returns at once if one is pending. For test doubles of the consumer.
    pub async fn woken(&self) {
        self.signal.notified().await;
    }

    pub(crate) fn signal(&self) -> &Arc<WakeupSignal> {
        &self.signal
    }
}

/// Notifies the application that its state may have changed. Only one task waits for it: the owner of the consumer.
#[derive(Debug, Default)]
pub(crate) struct WakeupSignal {
    wakeup: AtomicBool,
    notify: Notify,
}

impl WakeupSignal {
    pub(crate) fn notify(&self) {
        self.notify.notify_one();
    }

    /// Waits for the next notification since the last call.
    pub(crate) async fn notified(&self) {
        self.notify.notified().await;
    }

    /// Returns whether a wakeup is pending, and clears it.
    pub(crate) fn take_wakeup(&self) -> bool {
        // Most calls find none, and a load costs less than a swap.
        self.wakeup.load(Ordering::Acquire) && self.wakeup.swap(false, Ordering::AcqRel)
    }
}
