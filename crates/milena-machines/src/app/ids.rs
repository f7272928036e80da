//! Ids of the scheduler and its driver, and indexes of its slabs.

/// A handler: its place in [`SchedulerConfig::handlers`](super::SchedulerConfig::handlers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub u16);

/// A circuit breaker: its place in [`SchedulerConfig::breakers`](super::SchedulerConfig::breakers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BreakerId(pub u16);

/// A bulkhead: its place in [`SchedulerConfig::bulkheads`](super::SchedulerConfig::bulkheads).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BulkheadId(pub u16);

/// The consumer that a partition comes from. What is committed together has the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceId(pub u16);

/// One assignment of a partition. Once that is over it names nothing, and calls with it do nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    pub(crate) index: PartitionIndex,
    pub(crate) epoch: u32,
}

/// One delivery of a record. Once it is done, revoked or lost it names nothing, and calls with it do nothing.
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

/// What a record is ordered by. It may stand for a run: records that follow each other without a gap.
pub trait Keyed: Sized {
    /// Equal bytes of one partition are handled in order, if the handler keeps the order of keys.
    fn key(&self) -> Option<&[u8]>;

    /// How many records it stands for.
    fn records(&self) -> u32 {
        1
    }

    /// The key of one of them.
    fn key_at(&self, place: u32) -> Option<&[u8]> {
        let _ = place;
        self.key()
    }

    /// Keeps the first `count` records and gives the others. It is asked only of what stands for more.
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
