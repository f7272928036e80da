//! What becomes of a batch, told to all who wait for one of its records.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
};

use super::error::SendError;
use crate::consumer::TopicPartition;

/// The end of a batch.
#[derive(Debug)]
pub(super) enum BatchOutcome {
    Acked {
        base_offset: Option<i64>,
        log_append_time_ms: Option<i64>,
    },
    Failed(SendError),
    /// It was too large for its topic and went as several: each with the place of its first record.
    Split(Vec<(u32, Arc<BatchDelivery>)>),
}

/// One for each batch; each of its records has a share in it.
#[derive(Debug)]
pub(super) struct BatchDelivery {
    pub(super) topic_partition: Arc<TopicPartition>,
    outcome: OnceLock<BatchOutcome>,
    waiters: Mutex<Waiters>,
    watched: Mutex<WatchedRecords>,
}

/// The records that interceptors are to hear of: their places in the batch, and their timestamps.
#[derive(Debug, Default)]
enum WatchedRecords {
    #[default]
    Nothing,
    Records(Vec<(u32, i64)>),
    /// They have heard.
    Over,
}

/// How a record came to be watched.
pub(super) enum WatchOutcome {
    First,
    WithOthers,
    TooLate,
}

/// Those who wait. One that waits no more leaves its seat to the next.
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

    /// Interceptors are to hear of this record.
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

    /// It is decided once.
    pub(super) fn decide(&self, outcome: BatchOutcome) {
        if self.outcome.set(outcome).is_ok() {
            let waiters = std::mem::take(&mut *self.waiters());
            waiters.slots.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// Ready when it is decided. `slot` belongs to whoever asks.
    pub(super) fn poll_outcome(&self, cx: &Context<'_>, slot: &mut Option<usize>) -> Poll<&BatchOutcome> {
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        let mut waiters = self.waiters();
        // It may have been decided before the lock was there; after that, whoever decides wakes this one too.
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

    /// Whoever has the seat waits no more.
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
