//! What becomes of a batch, told to all who wait for one of its records.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
};

use super::{error::SendError, record::SharedPlace};

/// The end of a batch.
#[derive(Debug)]
pub(super) enum Outcome {
    Acked {
        base_offset: Option<i64>,
        log_append_time_ms: Option<i64>,
    },
    Failed(SendError),
    /// It was too large for its topic and went as several: each with the place of its first record.
    Split(Vec<(u32, Arc<BatchFate>)>),
}

/// One for each batch; each of its records has a share in it.
#[derive(Debug)]
pub(super) struct BatchFate {
    pub(super) place: SharedPlace,
    outcome: OnceLock<Outcome>,
    waiting: Mutex<Waiting>,
    watched: Mutex<Watch>,
}

/// The records that interceptors are to hear of: their places in the batch, and their timestamps.
#[derive(Debug, Default)]
enum Watch {
    #[default]
    Nothing,
    Records(Vec<(u32, i64)>),
    /// They have heard.
    Over,
}

/// How a record came to be watched.
pub(super) enum Watched {
    First,
    WithOthers,
    TooLate,
}

/// Those who wait. One that waits no more leaves its seat to the next.
#[derive(Debug, Default)]
struct Waiting {
    seats: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl BatchFate {
    pub(super) fn new(place: SharedPlace) -> Self {
        Self {
            place,
            outcome: OnceLock::new(),
            waiting: Mutex::default(),
            watched: Mutex::default(),
        }
    }

    /// Interceptors are to hear of this record.
    pub(super) fn watch(&self, index: u32, timestamp: i64) -> Watched {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *watched {
            Watch::Nothing => {
                *watched = Watch::Records(vec![(index, timestamp)]);
                Watched::First
            }
            Watch::Records(records) => {
                records.push((index, timestamp));
                Watched::WithOthers
            }
            Watch::Over => Watched::TooLate,
        }
    }

    pub(super) fn take_watched(&self) -> Vec<(u32, i64)> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *watched, Watch::Over) {
            Watch::Records(records) => records,
            Watch::Nothing | Watch::Over => vec![],
        }
    }

    pub(super) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// It is decided once.
    pub(super) fn decide(&self, outcome: Outcome) {
        if self.outcome.set(outcome).is_ok() {
            let waiting = std::mem::take(&mut *self.waiting());
            waiting.seats.into_iter().flatten().for_each(Waker::wake);
        }
    }

    /// Ready when it is decided. `seat` belongs to whoever asks.
    pub(super) fn poll_outcome(&self, cx: &Context<'_>, seat: &mut Option<usize>) -> Poll<&Outcome> {
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        let mut waiting = self.waiting();
        // It may have been decided before the lock was there; after that, whoever decides wakes this one too.
        if let Some(outcome) = self.outcome.get() {
            return Poll::Ready(outcome);
        }
        let taken = *seat.get_or_insert_with(|| {
            waiting.free.pop().unwrap_or_else(|| {
                waiting.seats.push(None);
                waiting.seats.len() - 1
            })
        });
        if let Some(place) = waiting.seats.get_mut(taken) {
            match place {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *place = Some(cx.waker().clone()),
            }
        }
        Poll::Pending
    }

    /// Whoever has the seat waits no more.
    pub(super) fn leave(&self, seat: usize) {
        let mut waiting = self.waiting();
        if let Some(place) = waiting.seats.get_mut(seat) {
            *place = None;
            waiting.free.push(seat);
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
