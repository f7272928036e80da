//! The delivery of a batch: its outcome, and the tasks that wait for it.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
};

use super::error::SendError;
use crate::consumer::TopicPartition;

/// The outcome of a batch.
#[derive(Debug)]
pub(super) enum BatchOutcome {
    Acked {
        base_offset: Option<i64>,
        log_append_time_ms: Option<i64>,
    },
    Failed(SendError),
    /// Split because it was too large for its topic: the parts, with the index of their first record.
    Split(Vec<(u32, Arc<BatchDelivery>)>),
}

/// The delivery of one batch, shared by the deliveries of its records.
#[derive(Debug)]
pub(super) struct BatchDelivery {
    pub(super) topic_partition: Arc<TopicPartition>,
    outcome: OnceLock<BatchOutcome>,
    waiters: Mutex<Waiters>,
    watched: Mutex<WatchedRecords>,
}

/// The records to report to interceptors: their index in the batch, and their timestamp.
#[derive(Debug, Default)]
enum WatchedRecords {
    #[default]
    Nothing,
    Records(Vec<(u32, i64)>),
    /// They were reported.
    Over,
}

/// The state of the batch when a record was watched.
pub(super) enum WatchOutcome {
    First,
    WithOthers,
    TooLate,
}

/// The wakers of the tasks that wait. A slot that is released is used again.
#[derive(Debug, Default)]
struct Waiters {
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl BatchDelivery {
    pub(super) fn new(topic_partition: Arc<TopicPartition>) -> Self {
        Self {
            topic_partition,
            outcome: OnceLock::new(),
            waiters: Mutex::default(),
            watched: Mutex::default(),
        }
    }

    /// Registers a record to be reported to interceptors.
    pub(super) fn watch(&self, index: u32, timestamp: i64) -> WatchOutcome {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *watched {
            WatchedRecords::Nothing => {
                *watched = WatchedRecords::Records(vec![(index, timestamp)]);
                WatchOutcome::First
            }
            WatchedRecords::Records(records) => {
                records.push((index, timestamp));
                WatchOutcome::WithOthers
            }
            WatchedRecords::Over => WatchOutcome::TooLate,
        }
    }

    pub(super) fn take_watched(&self) -> Vec<(u32, i64)> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *watched, WatchedRecords::Over) {
            WatchedRecords::Records(records) => records,
            WatchedRecords::Nothing | WatchedRecords::Over => vec![],
        }
    }

    pub(super) fn outcome(&self) -> Option<&BatchOutcome> {
        self.outcome.get()
    }

    /// Sets the outcome, once, and wakes all waiters.
    pub(super) fn decide(&self, outcome: BatchOutcome) {
        if self.outcome.set(outcome).is_ok() {
            let waiters = std::mem::take(&mut *self.waiters());
            waiters.slots.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// Ready when the outcome is known. `slot` is the waiter slot of the caller.
    pub(super) fn poll_outcome(&self, cx: &Context<'_>, slot: &mut Option<usize>) -> Poll<&BatchOutcome> {
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        let mut waiters = self.waiters();
        // The outcome may have been set before the lock was taken. Once the lock is held, `decide` wakes this waiter
        // too.
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        let taken = *slot.get_or_insert_with(|| {
            waiters.free.pop().unwrap_or_else(|| {
                waiters.slots.push(None);
                waiters.slots.len() - 1
            })
        });
        if let Some(entry) = waiters.slots.get_mut(taken) {
            match entry {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *entry = Some(cx.waker().clone()),
            }
        }
        Poll::Pending
    }

    /// Releases a waiter slot.
    pub(super) fn leave(&self, slot: usize) {
        let mut waiters = self.waiters();
        if let Some(entry) = waiters.slots.get_mut(slot) {
            *entry = None;
            waiters.free.push(slot);
        }
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
