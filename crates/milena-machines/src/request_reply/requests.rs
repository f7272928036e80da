//! The pending requests of a requester.

use std::collections::{BTreeSet, VecDeque};

use milena_invariant::invariant;

use super::CorrelationId;

/// A slot is used again only after this many others, so that late and duplicate replies are told apart.
const REUSE_DISTANCE: usize = 1_024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestsConfig {
    /// A random number of this process. See [`CorrelationId`].
    pub epoch: u32,
    /// Bound of requests that wait for their replies.
    pub pending_max: u32,
}

/// Pending requests with their deadlines. `W` belongs to the driver: it wakes the task that waits for the reply.
///
/// 1. `handle_position`: the reply partition is read from here on. Only then may a request begin.
/// 2. `begin` for each request, then the driver sends it, once.
/// 3. `handle_reply` for each record of the reply partition, `poll_expired` when `next_deadline` has come, `cancel` when
///    the task has stopped waiting. Each removes the request and its deadline; a later reply finds nothing.
#[derive(Debug)]
pub struct Requests<W> {
    config: RequestsConfig,
    /// Offset from which replies are read, once it is known.
    position: Option<i64>,
    is_closed: bool,
    slots: Vec<Slot<W>>,
    free: VecDeque<u32>,
    deadlines: BTreeSet<(i64, u32)>,
    counts: RequestCounts,
}

#[derive(Debug)]
struct Slot<W> {
    nonce: u64,
    deadline_ms: i64,
    state: State<W>,
}

#[derive(Debug)]
enum State<W> {
    Pending(W),
    Replied,
    /// It timed out, or its task stopped waiting.
    Abandoned,
}

/// The reason why a request cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    #[error("the position of the reply partition is unknown")]
    NoPosition,
    #[error("{pending_max} requests are pending already")]
    Full { pending_max: u32 },
    #[error("the requester is closed")]
    Closed,
}

/// Meaning of a record in the reply partition.
#[derive(Debug, PartialEq, Eq)]
pub enum ReplyVerdict<W> {
    /// It is the reply to this pending request.
    Completes(W),
    /// Its request timed out, or its task stopped waiting.
    Late,
    /// Its request has a reply already: the service handled it twice.
    Duplicate,
    /// It belongs to another process: one that shares the partition, or the predecessor of this one.
    Foreign,
    /// It has no correlation id, or one that was not given out, or so long ago that its fate is forgotten.
    Unknown,
}

/// Numbers since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    pub begun: u64,
    pub replied: u64,
    pub timed_out: u64,
    pub cancelled: u64,
    pub late: u64,
    pub duplicate: u64,
    pub foreign: u64,
    pub unknown: u64,
}

impl<W> Requests<W> {
    pub fn new(config: RequestsConfig) -> Self {
        Self {
            config,
            position: None,
            is_closed: false,
            slots: vec![],
            free: VecDeque::new(),
            deadlines: BTreeSet::new(),
            counts: RequestCounts::default(),
        }
    }

    /// Notes that all records of the reply partition from this offset on will be passed to [`Self::handle_reply`].
    pub fn handle_position(&mut self, offset: i64) {
        self.position = Some(offset);
    }

    /// The offset from which replies are read, once it is known.
    pub fn position(&self) -> Option<i64> {
        self.position
    }

    /// Adds a request. The nonce is random.
    pub fn begin(&mut self, nonce: u64, deadline_ms: i64, waiter: W) -> Result<CorrelationId, BeginError> {
        if self.is_closed {
            return Err(BeginError::Closed);
        }
        if self.position.is_none() {
            return Err(BeginError::NoPosition);
        }
        let pending_max = self.config.pending_max;
        if self.pending() >= pending_max as usize {
            return Err(BeginError::Full { pending_max });
        }
        let state = State::Pending(waiter);
        let slot = self.take_slot(Slot {
            nonce,
            deadline_ms,
            state,
        });
        self.deadlines.insert((deadline_ms, slot));
        self.counts.begun += 1;
        Ok(CorrelationId {
            epoch: self.config.epoch,
            slot,
            nonce,
        })
    }

    /// Uses the slot that is free for the longest time.
    fn take_slot(&mut self, new: Slot<W>) -> u32 {
        if self.free.len() >= REUSE_DISTANCE
            && let Some(index) = self.free.pop_front()
            && let Some(slot) = self.slots.get_mut(index as usize)
        {
            *slot = new;
            return index;
        }
        self.slots.push(new);
        // The bound of pending requests and the reuse distance together are a bound of slots.
        u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
    }

    /// Decides about a record of the reply partition, by its correlation id.
    pub fn handle_reply(&mut self, correlation: Option<&[u8]>) -> ReplyVerdict<W> {
        let verdict = match correlation.and_then(CorrelationId::from_bytes) {
            None => ReplyVerdict::Unknown,
            Some(id) if id.epoch != self.config.epoch => ReplyVerdict::Foreign,
            Some(id) => self.find_reply(id),
        };
        let counter = match &verdict {
            ReplyVerdict::Completes(_) => &mut self.counts.replied,
            ReplyVerdict::Late => &mut self.counts.late,
            ReplyVerdict::Duplicate => &mut self.counts.duplicate,
            ReplyVerdict::Foreign => &mut self.counts.foreign,
            ReplyVerdict::Unknown => &mut self.counts.unknown,
        };
        *counter += 1;
        verdict
    }

    fn find_reply(&mut self, id: CorrelationId) -> ReplyVerdict<W> {
        let state = self.state(id).map(|slot| &slot.state);
        match state {
            None => ReplyVerdict::Unknown,
            Some(State::Replied) => ReplyVerdict::Duplicate,
            Some(State::Abandoned) => ReplyVerdict::Late,
            Some(State::Pending(_)) => {
                let waiter = self.remove(id, State::Replied);
                waiter.map_or(ReplyVerdict::Unknown, ReplyVerdict::Completes)
            }
        }
    }

    /// Removes a request whose task has stopped waiting. Returns `None` if it has ended already.
    pub fn cancel(&mut self, id: CorrelationId) -> Option<W> {
        let cancelled = self.remove(id, State::Abandoned)?;
        self.counts.cancelled += 1;
        Some(cancelled)
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    /// Removes and returns a request whose deadline has come.
    pub fn poll_expired(&mut self, now_ms: i64) -> Option<W> {
        let (deadline_ms, slot) = *self.deadlines.first()?;
        if deadline_ms > now_ms {
            return None;
        }
        let nonce = self.slots.get(slot as usize)?.nonce;
        let epoch = self.config.epoch;
        let expired = self.remove(CorrelationId { epoch, slot, nonce }, State::Abandoned);
        invariant!(expired.is_some(), "every_deadline_has_a_pending_request");
        self.counts.timed_out += u64::from(expired.is_some());
        expired
    }

    /// Refuses further requests, and returns the pending ones.
    pub fn close(&mut self) -> Vec<W> {
        self.is_closed = true;
        self.deadlines.clear();
        let slots = std::mem::take(&mut self.slots);
        self.free.clear();
        let pending = slots.into_iter().filter_map(|slot| match slot.state {
            State::Pending(waiter) => Some(waiter),
            State::Replied | State::Abandoned => None,
        });
        pending.collect()
    }

    /// The number of requests that wait for a reply.
    pub fn pending(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn counts(&self) -> RequestCounts {
        self.counts
    }

    fn state(&self, id: CorrelationId) -> Option<&Slot<W>> {
        let slot = self.slots.get(id.slot as usize)?;
        (slot.nonce == id.nonce && id.epoch == self.config.epoch).then_some(slot)
    }

    /// Removes a pending request with its deadline.
    fn remove(&mut self, id: CorrelationId, state: State<W>) -> Option<W> {
        self.state(id)?;
        let slot = self.slots.get_mut(id.slot as usize)?;
        if !matches!(slot.state, State::Pending(_)) {
            return None;
        }
        let State::Pending(waiter) = std::mem::replace(&mut slot.state, state) else {
            return None;
        };
        let had_deadline = self.deadlines.remove(&(slot.deadline_ms, id.slot));
        invariant!(had_deadline, "every_pending_request_has_a_deadline");
        self.free.push_back(id.slot);
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(pending_max: u32) -> Requests<&'static str> {
        let mut requests = Requests::new(RequestsConfig { epoch: 7, pending_max });
        requests.handle_position(0);
        requests
    }

    #[test]
    fn nothing_begins_before_the_position_is_known() {
        let mut requests = Requests::new(RequestsConfig {
            epoch: 7,
            pending_max: 10,
        });
        assert_eq!(requests.begin(1, 5, "a"), Err(BeginError::NoPosition));
        requests.handle_position(42);
        assert_eq!(requests.position(), Some(42));
        assert!(requests.begin(1, 5, "a").is_ok());
    }

    #[test]
    fn a_reply_completes_its_request_and_no_other() {
        let mut requests = requests(10);
        let a = requests.begin(1, 100, "a").unwrap();
        let b = requests.begin(2, 50, "b").unwrap();
        assert_eq!(requests.next_deadline(), Some(50));
        let reply = |requests: &mut Requests<_>, id: CorrelationId| requests.handle_reply(Some(&id.to_bytes()));
        assert_eq!(reply(&mut requests, b), ReplyVerdict::Completes("b"));
        assert_eq!(requests.next_deadline(), Some(100), "its deadline is removed");
        assert_eq!(reply(&mut requests, b), ReplyVerdict::Duplicate);
        assert_eq!(requests.poll_expired(99), None);
        assert_eq!(requests.poll_expired(100), Some("a"));
        assert_eq!(reply(&mut requests, a), ReplyVerdict::Late);
        let (guessed, foreign) = (CorrelationId { nonce: 3, ..a }, CorrelationId { epoch: 8, ..a });
        assert_eq!(reply(&mut requests, guessed), ReplyVerdict::Unknown);
        assert_eq!(reply(&mut requests, foreign), ReplyVerdict::Foreign);
        assert_eq!(requests.handle_reply(Some(b"abc")), ReplyVerdict::Unknown);
        assert_eq!(requests.handle_reply(None), ReplyVerdict::Unknown);
        let expected = RequestCounts {
            begun: 2,
            replied: 1,
            timed_out: 1,
            late: 1,
            duplicate: 1,
            foreign: 1,
            unknown: 3,
            ..RequestCounts::default()
        };
        assert_eq!(requests.counts(), expected);
        assert_eq!((requests.pending(), requests.next_deadline()), (0, None));
    }

    #[test]
    fn a_cancelled_request_leaves_nothing_behind() {
        let mut requests = requests(1);
        let a = requests.begin(1, 100, "a").unwrap();
        assert_eq!(requests.begin(2, 100, "b"), Err(BeginError::Full { pending_max: 1 }));
        assert_eq!(requests.cancel(a), Some("a"));
        assert_eq!(requests.cancel(a), None);
        assert_eq!((requests.pending(), requests.next_deadline()), (0, None));
        assert!(requests.begin(2, 100, "b").is_ok());
        assert_eq!(requests.close(), ["b"]);
        assert_eq!(requests.begin(3, 100, "c"), Err(BeginError::Closed));
        assert_eq!(requests.handle_reply(Some(&a.to_bytes())), ReplyVerdict::Unknown);
        assert_eq!(requests.poll_expired(i64::MAX), None);
    }

    #[test]
    fn slots_are_used_again_and_forgotten_replies_are_unknown() {
        let mut requests = requests(2);
        let first = requests.begin(1, 10, "a").unwrap();
        assert_eq!(requests.poll_expired(10), Some("a"));
        for nonce in 2..10_000 {
            let id = requests.begin(nonce, 10, "b").unwrap();
            let verdict = requests.handle_reply(Some(&id.to_bytes()));
            assert_eq!(verdict, ReplyVerdict::Completes("b"));
            assert_eq!(requests.handle_reply(Some(&id.to_bytes())), ReplyVerdict::Duplicate);
        }
        assert_eq!(requests.slots.len(), REUSE_DISTANCE);
        assert_eq!(requests.handle_reply(Some(&first.to_bytes())), ReplyVerdict::Unknown);
    }
}
