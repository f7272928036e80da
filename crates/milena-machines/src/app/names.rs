//! What machines and drivers of applications call things.

/// A handler: its place in [`WorkConfig::handlers`](super::WorkConfig::handlers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HandlerId(pub u16);

/// A circuit breaker: its place in [`WorkConfig::breakers`](super::WorkConfig::breakers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BreakerId(pub u16);

/// A bulkhead: its place in [`WorkConfig::bulkheads`](super::WorkConfig::bulkheads).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BulkheadId(pub u16);

/// The consumer that a partition comes from. What is committed together has the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceId(pub u16);

/// One assignment of a partition. Once that is over it names nothing, and calls with it do nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    pub index: u32,
    pub epoch: u32,
}

/// One delivery of a record. Once it is done, revoked or lost it names nothing, and calls with it do nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    pub index: u32,
    pub serial: u32,
}

/// What a record is ordered by.
pub trait Keyed {
    /// Equal bytes of one partition are handled in order, if the handler keeps the order of keys.
    fn key(&self) -> Option<&[u8]>;
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
