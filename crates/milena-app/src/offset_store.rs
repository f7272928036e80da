//! Offsets outside of Kafka: the seam for stores that commit an offset together with the effects of handlers.
//!
//! # Invariants
//!
//! 1. A partition has one owner in the store, the one with the highest epoch. [`OffsetStore::claim`] raises the epoch and
//!    waits for transactions of earlier owners that are about to commit.
//! 2. A transaction of a handler commits only if the epoch of its [`PartitionOwner`] is still the highest. Therefore the
//!    offset that `claim` returns covers every effect of earlier owners, and none follows.
//! 3. All records below the stored offset are done. It moves with the effect of a record if that record is the lowest
//!    unfinished one and its handler has [`Order::Partition`](crate::policy::Order); otherwise afterwards, with
//!    [`OffsetStore::commit`].
//! 4. The effects of records at or above the stored offset are guarded by their processed-event rows, which are in the same
//!    transactions. Such a record is a duplicate when it is read again.
//! 5. A record that ends without a transaction (dead letter, retry topic, skip, duplicate) moves the offset only after its
//!    failure record is acknowledged.
//! 6. Kafka has a copy of each offset, written after the store has it. It is read only when the store has no offset.

use std::{fmt, pin::Pin, sync::Arc};

use milena_client::consumer::TopicPartition;

use crate::handler::BoxError;

/// Future of an [`OffsetStore`].
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send + 'a>>;

/// Storage of offsets beside the effects of handlers, for [`Delivery::StoredOffsets`](crate::Delivery::StoredOffsets).
/// The [module](self) states its invariants.
pub trait OffsetStore: fmt::Debug + Send + Sync + 'static {
    /// Checks at start that the store can be used.
    fn check(&self) -> StoreFuture<'_, ()>;

    /// Makes an instance the owner of partitions: raises their epochs, atomically and after the transactions of earlier
    /// owners. Returns a claim for each partition, in their order.
    ///
    /// An offset that belongs to another topic id is forgotten, and so are the processed events of that topic that were
    /// identified by their offsets.
    fn claim<'a>(
        &'a self,
        group: &'a str,
        instance: &'a str,
        partitions: &'a [PartitionToClaim],
    ) -> StoreFuture<'a, Vec<Claim>>;

    /// Stores offsets, each if its epoch is still the highest. An offset never goes back within an epoch. Returns the
    /// partitions that have a newer owner.
    fn commit<'a>(&'a self, group: &'a str, offsets: &'a [OffsetToStore]) -> StoreFuture<'a, Vec<TopicPartition>>;
}

/// A partition that the group has assigned to this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionToClaim {
    pub partition: TopicPartition,
    /// Id of the topic as Kafka prints it; `None` if the broker is too old to have one.
    pub topic_id: Option<String>,
}

/// A claimed partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub epoch: i64,
    /// `None` if the store has no offset of this topic.
    pub stored: Option<StoredOffset>,
    /// The stored offset belonged to a topic of the same name that was deleted.
    pub is_recreated: bool,
}

/// Progress of a partition in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredOffset {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last commit.
    pub leader_epoch: Option<i32>,
    /// Metadata of the last commit, and the offset of that commit. Effects may have moved `offset` since.
    pub metadata: String,
    pub metadata_offset: i64,
}

/// An offset for [`OffsetStore::commit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetToStore {
    pub partition: TopicPartition,
    pub epoch: i64,
    /// The next offset to read.
    pub offset: i64,
    pub leader_epoch: Option<i32>,
    pub metadata: String,
}

/// Ownership of a partition, which a transaction checks before it commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionOwner {
    /// Group of the stored offset: the application's group, or that of the retry topic.
    pub group: Arc<str>,
    pub epoch: i64,
}

/// The partition has a newer owner, so the transaction of this call must not commit. The runtime drops the records of the
/// partition; the new owner handles them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{partition} has a newer owner in the offset store; epoch {epoch} is fenced")]
pub struct Fenced {
    pub partition: TopicPartition,
    pub epoch: i64,
}
