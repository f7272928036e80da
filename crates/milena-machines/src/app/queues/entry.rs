//! A record that is kept until it is done.

use super::{
    super::{
        Keyed, Publish, PublishResult,
        ids::{Index, PartitionIndex, QueueIndex, RecordIndex},
    },
    gauge::Size,
};

#[derive(Debug)]
pub(crate) struct Entry<T> {
    pub(crate) payload: Option<T>,
    pub(crate) offset: i64,
    pub(crate) partition: PartitionIndex,
    /// Changes when the place is given to another record.
    pub(crate) serial: u32,
    pub(crate) bytes: u32,
    /// How many records it stands for: more than one is a run.
    pub(crate) count: u32,
    /// It is handed out as it is, without a look at its keys.
    pub(crate) whole: bool,
    /// It is out as a whole, and its keys are held so that nothing with one of them is.
    pub(super) holds: bool,
    pub(crate) state: State,
    pub(crate) passing: Passing,
    pub(crate) history: History,
    pub(super) queue: QueueIndex,
    pub(super) prev: RecordIndex,
    pub(super) next: RecordIndex,
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no record.
    Free,
    /// Not in line yet.
    Staged,
    Waiting,
    InHandler,
    /// It failed, and waits until it is tried again.
    Parked,
    Publishing,
    /// That failed, and waits until it is tried again.
    Unpublished,
}

/// Whether records behind one go on before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    /// They wait for it.
    No,
    /// They have passed it while it is published. With what became of that, if it is known and not told yet because others
    /// come first.
    Sent(Option<PublishResult>),
    /// One before it was not published after all: it is handled again behind that one, whatever comes of it now.
    Recalled,
}

/// What has happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct History {
    /// How often it was tried, in all topics.
    pub(crate) attempts: u32,
    /// And in this one, as far as that counts.
    pub(crate) in_place: u32,
    pub(crate) first_failed_ms: Option<i64>,
    /// How many of the delays it has waited for: in the held topic, or before it came back to its own. In the held topic
    /// also what it must not be tried before.
    pub(crate) rounds: u8,
    pub(crate) due_ms: i64,
    /// The number of its last call.
    pub(crate) call: u64,
    /// Since when it is where it is; for what is parked or staged, until when.
    pub(crate) since_ms: i64,
    pub(crate) publish: Option<Publish>,
    /// How often that failed.
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
            whole: false,
            holds: false,
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
        self.whole = false;
        self.holds = false;
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

    /// The links stay for the queue that it leaves.
    pub(super) fn clear(&mut self) {
        self.payload = None;
        self.state = State::Free;
        self.passing = Passing::No;
        self.serial = self.serial.wrapping_add(1);
    }
}
