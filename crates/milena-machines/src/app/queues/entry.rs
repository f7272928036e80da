//! An entry: a record that is kept until it is done, or a run of them.

use super::super::{
    Keyed, Publish, PublishResult,
    gates::gauge::Size,
    ids::{Index, PartitionIndex, QueueIndex, RecordIndex},
};

#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) payload: Option<T>,
    pub(crate) offset: i64,
    pub(crate) partition: PartitionIndex,
    /// Changes when the slot is given to another record.
    pub(crate) serial: u32,
    pub(crate) bytes: u32,
    /// The number of records: more than one for a run.
    pub(crate) count: u32,
    /// It waits and is handed out as a run, in no queue of a key.
    pub(crate) is_run: bool,
    /// It is handed out as a run, and the queues of its keys count its records as out.
    pub(super) holds_keys: bool,
    pub(crate) state: State,
    pub(crate) passing: Passing,
    pub(crate) history: History,
    pub(super) queue: QueueIndex,
    pub(super) prev: RecordIndex,
    pub(super) next: RecordIndex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// The slot has no record.
    Free,
    /// Not admitted to a queue yet.
    Staged,
    Waiting,
    InHandler,
    /// It failed and waits for its next attempt.
    Parked,
    Publishing,
    /// Publishing failed and waits for its next attempt.
    Unpublished,
}

/// Whether the records behind one go on before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    /// They wait for it.
    No,
    /// They have passed it while it is published. With its result, if that is known and waits for those before it.
    Sent(Option<PublishResult>),
    /// A record before it was not published after all: it is handled again behind that one, whatever its result.
    Recalled,
}

/// The attempts with a record so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct History {
    /// Attempts in all topics.
    pub(crate) attempts: u32,
    /// Attempts in this topic that count for its policy.
    pub(crate) in_place: u32,
    pub(crate) first_failed_ms: Option<i64>,
    /// The number of delays that it has waited for: in the held-keys topic, or before it came back to its own topic.
    pub(crate) rounds: u8,
    /// In the held-keys topic: not handled before this.
    pub(crate) due_ms: i64,
    /// The number of its last call.
    pub(crate) call: u64,
    /// The time when it entered its state; for a parked or staged record, the time when it leaves it.
    pub(crate) since_ms: i64,
    pub(crate) publish: Option<Publish>,
    pub(crate) publish_failures: u32,
}

impl<T> Entry<T> {
    pub(super) fn empty() -> Self {
        Self {
            payload: None,
            offset: 0,
            partition: Index::NONE,
            serial: 0,
            bytes: 0,
            count: 0,
            is_run: false,
            holds_keys: false,
            state: State::Free,
            passing: Passing::No,
            history: History::default(),
            queue: Index::NONE,
            prev: Index::NONE,
            next: Index::NONE,
        }
    }

    pub(super) fn fill(&mut self, partition: PartitionIndex, offset: i64, bytes: u32, payload: T)
    where
        T: Keyed,
    {
        self.count = payload.records();
        self.is_run = false;
        self.holds_keys = false;
        self.payload = Some(payload);
        self.offset = offset;
        self.partition = partition;
        self.bytes = bytes;
        self.state = State::Staged;
        self.passing = Passing::No;
        self.history = History::default();
    }

    pub(crate) fn size(&self) -> Size {
        Size {
            records: self.count,
            bytes: self.bytes,
        }
    }

    /// Frees the slot. The links stay for the queue that it leaves.
    pub(super) fn clear(&mut self) {
        self.payload = None;
        self.state = State::Free;
        self.passing = Passing::No;
        self.serial = self.serial.wrapping_add(1);
    }
}
