//! Ids of the scheduler and its driver, and indexes of its slabs.

/// A handler: its index in [`SchedulerConfig::handlers`](super::SchedulerConfig::handlers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub u16);

/// A circuit breaker: its index in [`SchedulerConfig::breakers`](super::SchedulerConfig::breakers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BreakerId(pub u16);

/// A bulkhead: its index in [`SchedulerConfig::bulkheads`](super::SchedulerConfig::bulkheads).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BulkheadId(pub u16);

/// The consumer of a partition. Partitions of one source are committed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceId(pub u16);

/// One assignment of a partition. When that is over the id is stale, and calls with it do nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    pub(crate) index: PartitionIndex,
    pub(crate) epoch: u32,
}

/// One delivery of a record. When it is done, revoked or lost the id is stale, and calls with it do nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    pub(crate) index: RecordIndex,
    pub(crate) serial: u32,
}

impl RecordId {
    /// An id for tests of drivers. The scheduler gives out its own.
    pub const fn new(index: u32, serial: u32) -> Self {
        let index = RecordIndex(index);
        Self { index, serial }
    }
}

/// A position in a [`Slab`](super::queues::Slab). Each slab has an index type of its own, so that an index of one does not
/// compile as an index of another.
pub(crate) trait Index: Copy + Eq {
    /// No index: a list that is empty, or the end of one.
    const NONE: Self;

    fn at(position: usize) -> Self;

    fn position(self) -> usize;
}

macro_rules! indexes {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(u32);

        impl Index for $name {
            const NONE: Self = Self(u32::MAX);

            fn at(position: usize) -> Self {
                Self(position as u32)
            }

            fn position(self) -> usize {
                self.0 as usize
            }
        }
    )*};
}

indexes! {
    /// A slot for a record, or for a run of them.
    RecordIndex
    /// A slot for an assigned partition.
    PartitionIndex
    /// A slot for a queue of records.
    QueueIndex
}

/// The payload of a record, with the key that it is ordered by; or of a run: records with consecutive offsets.
pub trait Keyed: Sized {
    /// Records of a partition with equal keys are handled in order, if the handler has [`Order::Key`](super::Order::Key).
    fn key(&self) -> Option<&[u8]>;

    /// The number of records.
    fn records(&self) -> u32 {
        1
    }

    /// The key of the record at an index of the run.
    fn key_at(&self, index: u32) -> Option<&[u8]> {
        let _ = index;
        self.key()
    }

    /// Keeps the first `count` records and returns the others. It is called only for runs with more.
    fn split(&mut self, count: u32) -> Option<Self> {
        let _ = count;
        None
    }
}

impl Keyed for () {
    fn key(&self) -> Option<&[u8]> {
        None
    }
}

impl Keyed for Option<bytes::Bytes> {
    fn key(&self) -> Option<&[u8]> {
        self.as_deref()
    }
}
