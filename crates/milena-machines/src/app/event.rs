//! Inputs and outputs of the [`Scheduler`](super::Scheduler).

use super::{BreakerId, BreakerState, HandlerId, PartitionId, RecordId, SourceId, WhenStalled};
use crate::TopicPartition;

/// The assignment of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub partition: TopicPartition,
    pub source: SourceId,
    pub handler: HandlerId,
    pub role: Role,
    /// The offset where the consumer begins to read.
    pub position: i64,
    pub committed: Option<CommittedOffset>,
    /// The leader epoch of the record before the position.
    pub leader_epoch: Option<i32>,
}

/// The kind of topic that a partition belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Main,
    /// A retry topic: its records are not handled before they are due.
    RetryTopic {
        /// The position of its delay in the handler's list.
        index: u8,
        delay_ms: i64,
    },
    /// A held-keys topic: see [`key_holds`](super::key_holds).
    HeldKeys,
}

/// An offset that the group has committed, with its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    pub offset: i64,
    pub metadata: String,
}

/// A record that was read, or a run of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival<T> {
    /// The offset of the first record.
    pub offset: i64,
    pub leader_epoch: Option<i32>,
    /// The memory that it takes.
    pub bytes: u32,
    /// The failure headers of a record in a retry or held-keys topic, or of one that has come back from there.
    pub retry: Option<RetryInfo>,
    pub payload: T,
}

/// Failure headers of a record. Any client can have written them, so each value is used within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryInfo {
    pub attempts: u32,
    pub due_ms: Option<i64>,
    pub first_failed_ms: Option<i64>,
    /// How often it was sent back to its own topic.
    pub returns: u8,
}

/// The fate of a record that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    Taken(RecordId),
    /// It is done, as the commit says that the assignment began from.
    Finished,
    /// The partition is not assigned any more, or the record was delivered before.
    Stale,
}

/// A record to hand to its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    pub record: RecordId,
    pub partition: PartitionId,
    pub offset: i64,
    /// The number of records: more than one for a run.
    pub count: u32,
    /// The number of this attempt, through all retry topics.
    pub attempt: u32,
}

/// The result of a call of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Done: the handler ignored the record.
    Skipped,
    /// Done: the record had been handled before.
    Duplicate,
    /// Done as soon as the output of the handler is published.
    Emit,
    /// The handler asks to be called again. This is not a failure.
    RetryAfter {
        ms: i64,
    },
    Failed(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The next attempt may succeed: unclassified errors, timeouts, panics.
    Retry,
    /// No attempt can succeed: the record cannot be decoded, or is invalid.
    Poison,
    /// A dependency of the handler failed. Counts for its breaker.
    Dependency(BreakerId),
    /// The application cannot go on.
    Fatal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishResult {
    Acked,
    /// Acknowledged, with the offset. Records of a held-keys topic need it.
    AckedAt(i64),
    Failed,
    /// It can never be written. If it is the output of a handler, its record has failed for good.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitResult {
    Ok,
    /// It can be retried.
    Failed,
    /// The broker does not accept metadata of this size.
    MetadataTooLarge,
    /// The member is not in the group any more, or its partitions have other owners.
    Lost,
}

/// A record to write, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// The output of the handler.
    Output,
    /// The record itself, to a retry topic.
    RetryTopic {
        index: u8,
        due_ms: i64,
        attempts: u32,
        first_failed_ms: i64,
    },
    /// The record itself, from a retry topic back to its own topic.
    Return {
        attempts: u32,
        first_failed_ms: Option<i64>,
        /// How often it was sent back, with this time.
        returns: u8,
    },
    /// The record itself, to the partition of the held-keys topic with the number of its own.
    HeldKeys {
        /// It is not handled before; without it, as soon as it is the first of its key.
        due_ms: Option<i64>,
        attempts: u32,
        first_failed_ms: Option<i64>,
    },
    /// The record itself, to the dead letter topic.
    DeadLetter {
        reason: DeadLetterReason,
        attempts: u32,
        first_failed_ms: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterReason {
    Poison,
    /// All attempts failed.
    Attempts,
    /// It failed for longer than the policy allows.
    Elapsed,
    /// A breaker of its handler is open, and the policy does not let records wait.
    Breaker,
    /// The bulkhead of its handler is full, and the policy does not let records wait.
    Bulkhead,
    /// It crashed several processes.
    Crash {
        owners: u32,
    },
}

/// An offset to commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOffset {
    pub id: PartitionId,
    pub partition: TopicPartition,
    /// The next offset to read.
    pub offset: i64,
    pub leader_epoch: Option<i32>,
    /// The map of offsets that are done above it.
    pub metadata: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Pause a partition. Records that the consumer has already may still come.
    Pause(PartitionId),
    Resume(PartitionId),
    Publish {
        record: RecordId,
        what: Publish,
    },
    /// Fetch the committed offsets of the held-keys partitions with the numbers of these, and call
    /// [`Scheduler::handle_held_commit`](super::Scheduler::handle_held_commit). The request is repeated, so it may fail.
    CheckKeyHolds(Vec<PartitionId>),
    /// Commit. At most one commit is in flight for each source.
    Commit {
        source: SourceId,
        offsets: Vec<CommitOffset>,
    },
    /// Cancel the handler or the publish of a record. The next owner reads it again, unless delivery is at most once. The id
    /// is stale already.
    Cancel(RecordId),
    /// A partition is drained and committed: the group may have it. The id is stale already.
    Released(PartitionId),
    /// No record is in flight: [`Scheduler::barrier_offsets`](super::Scheduler::barrier_offsets) can be taken.
    Barrier,
    /// A partition is to be released, and its offsets need a transaction: begin a barrier.
    BarrierNeeded,
    /// The partition has stopped until [`Scheduler::restart_partition`](super::Scheduler::restart_partition).
    Stopped {
        partition: PartitionId,
        offset: i64,
        reason: StopReason,
    },
    /// A record was skipped because the bulkhead of its handler is full.
    Skipped {
        partition: PartitionId,
        offset: i64,
    },
    /// The partition has not moved for long, because of the record at this offset.
    Stalled {
        partition: PartitionId,
        offset: i64,
        reason: StallReason,
        since_ms: i64,
        action: WhenStalled,
        /// The records whose calls are cancelled because of it, by their new ids.
        cancelled: Vec<RecordId>,
    },
    /// Processes crashed here: records are handed out one at a time from this offset on, until the partition is past those
    /// that can be the cause.
    Isolating {
        partition: PartitionId,
        offset: i64,
        owners: u32,
    },
    /// A record is given up because it crashed several processes, the last one in isolation.
    Quarantined {
        partition: PartitionId,
        offset: i64,
        owners: u32,
    },
    /// At most once: records from this offset on were committed and not handled. No owner handles them again.
    Lost {
        partition: TopicPartition,
        offset: i64,
        records: u64,
    },
    BreakerChanged {
        breaker: BreakerId,
        state: BreakerState,
    },
    /// The shutdown is over.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    Fatal,
    /// All attempts failed, and the policy has no dead letters.
    Exhausted,
    /// Too many of its records become dead letters.
    DlqLimit,
    /// A handler did not return.
    Stalled,
}

/// The reason why a partition does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallReason {
    /// It has no records.
    Idle,
    /// A handler has had the record for this long.
    InHandler { for_ms: i64, attempt: u32 },
    /// It failed and waits for its next attempt.
    WaitsForRetry { until_ms: i64, attempt: u32 },
    /// It is in a retry or held-keys topic and not due.
    NotDue { until_ms: i64 },
    /// A breaker is not closed.
    Breaker(BreakerId),
    /// Its output or failure record is not acknowledged; `failing` if it failed before, or has taken longer than 5 s.
    Publishing { failing: bool },
    /// A commit must succeed before it is handed out: of its offset (at most once), or of the crash guard.
    WaitsForCommit,
    /// Processes crashed here, so that one record is handed out at a time, and this is not the one.
    Isolating,
    /// It lies further above the committed offset than a commit map can tell.
    WaitsForMap,
    /// The handler is at its limit: concurrency, bulkhead or rate.
    WaitsForHandler,
    /// The partition has stopped until an operator restarts it.
    Stopped(StopReason),
    /// The partition is being given back.
    Revoking,
    /// The user has paused it.
    User,
}
