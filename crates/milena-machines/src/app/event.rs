//! What a driver tells [`Scheduler`](super::Scheduler), and what it is told to do.

use super::{BreakerId, BreakerState, HandlerId, PartitionId, RecordId, SourceId, WhenStalled};
use crate::TopicPartition;

/// A partition is ours from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub partition: TopicPartition,
    pub source: SourceId,
    pub handler: HandlerId,
    pub role: Role,
    /// Where the consumer begins to read.
    pub position: i64,
    /// What the group has committed.
    pub committed: Option<CommittedOffset>,
    /// And the leader epoch of what lies before that.
    pub leader_epoch: Option<i32>,
}

/// What kind of topic a partition is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Main,
    /// A retry topic: what it holds is not to be handled before its time.
    RetryTopic {
        /// Its place in the tiers of the handler.
        index: u8,
        delay_ms: i64,
    },
    /// What waits so that keys stay in order: see [`key_holds`](super::key_holds).
    HeldKeys,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    pub offset: i64,
    pub metadata: String,
}

/// A record that was read, or a run of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival<T> {
    /// Of the first.
    pub offset: i64,
    pub leader_epoch: Option<i32>,
    /// How much memory it holds.
    pub bytes: u32,
    /// What a record of a retry topic says about itself, or one that has come back from there.
    pub retry: Option<RetryInfo>,
    pub payload: T,
}

/// Read from headers, which anybody may have written: none of it is believed without bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryInfo {
    /// How often the record was tried.
    pub attempts: u32,
    pub due_ms: Option<i64>,
    pub first_failed_ms: Option<i64>,
    /// How often it was sent back to its own topic.
    pub returns: u8,
}

/// What became of a record that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    Taken(RecordId),
    /// The commit that we began from says that it is done.
    Finished,
    /// The partition is not ours any more, or the record was delivered before.
    Stale,
}

/// A record to hand to its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dispatch {
    pub record: RecordId,
    pub partition: PartitionId,
    pub offset: i64,
    /// How many records it stands for: more than one if a run goes to its handler as a whole.
    pub count: u32,
    /// How often it was tried with this one, through all retry topics.
    pub attempt: u32,
}

/// How a handler ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Done, because the handler wanted nothing of it.
    Skipped,
    /// Done, because it was done before.
    Duplicate,
    /// Done as soon as what the handler wrote is published.
    Emit,
    /// The handler asks to be called again, and it is no failure.
    RetryAfter {
        ms: i64,
    },
    Failed(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It may go well the next time: errors that say nothing else, timeouts, panics.
    Retry,
    /// It never will: what cannot be decoded, what is not valid.
    Poison,
    /// What the handler needs did not answer. Feeds the breaker.
    Dependency(BreakerId),
    /// The application cannot go on.
    Fatal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PublishResult {
    Acked,
    /// So too, and where it is. What is held needs that.
    AckedAt(i64),
    Failed,
    /// It can never be written. If its handler emitted it, the record has failed for good.
    Refused,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitResult {
    Ok,
    /// It can be tried again.
    Failed,
    /// The broker takes no metadata of this size.
    MetadataTooLarge,
    /// The group does not know us any more, or has given the partitions to others.
    Lost,
}

/// What to write, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publish {
    /// What the handler wrote.
    Output,
    /// The record itself, to a retry topic.
    RetryTopic {
        index: u8,
        due_ms: i64,
        attempts: u32,
        first_failed_ms: i64,
    },
    /// The record itself, from a retry topic back to its own.
    Return {
        attempts: u32,
        first_failed_ms: Option<i64>,
        /// How often it was sent back, with this time.
        returns: u8,
    },
    /// The record itself, to the held topic, in the partition that has the number of its own.
    HeldKeys {
        /// Not before this; without it, as soon as it is its turn.
        due_ms: Option<i64>,
        attempts: u32,
        first_failed_ms: Option<i64>,
    },
    /// The record itself, to the dead letters.
    DeadLetter {
        why: DeadLetterReason,
        attempts: u32,
        first_failed_ms: i64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterReason {
    Poison,
    /// All attempts failed.
    Attempts,
    /// It failed for longer than is allowed.
    Elapsed,
    /// A breaker that its handler needs is open, and does not let records wait.
    Breaker,
    /// The bulkhead of its handler is full, and the policy does not let records wait.
    Bulkhead,
    /// So many owners died that had it.
    Crash {
        owners: u32,
    },
}

/// Up to where a partition is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitOffset {
    pub id: PartitionId,
    pub partition: TopicPartition,
    /// The next offset to read.
    pub offset: i64,
    pub leader_epoch: Option<i32>,
    /// What is done above it.
    pub metadata: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Fetch nothing of it. What the consumer has of it already may still come.
    Pause(PartitionId),
    Resume(PartitionId),
    Publish {
        record: RecordId,
        what: Publish,
    },
    /// Ask what is committed for the partitions of the held topic that have the numbers of these, and tell
    /// [`Scheduler::handle_held_commit`](super::Scheduler::handle_held_commit). It is asked again anyway.
    CheckKeyHolds(Vec<PartitionId>),
    /// There is at most one under way for each source.
    Commit {
        source: SourceId,
        offsets: Vec<CommitOffset>,
    },
    /// Nobody waits any more for its handler, or for what was to be published of it; the next owner reads it again, unless
    /// delivery is at most once. The id is dead already.
    Cancel(RecordId),
    /// All that can be done for it is done: the group may have it. The id is dead already.
    Released(PartitionId),
    /// Nothing is in a handler or being published: [`Scheduler::barrier_offsets`](super::Scheduler::barrier_offsets) can be taken.
    Barrier,
    /// A partition is to be released, and its offsets need a transaction: begin a barrier.
    BarrierNeeded,
    /// The partition stands still until [`Scheduler::restart_partition`](super::Scheduler::restart_partition).
    Stopped {
        partition: PartitionId,
        offset: i64,
        why: StopReason,
    },
    /// A record is done without being handled, because the bulkhead of its handler is full and the policy skips.
    Skipped {
        partition: PartitionId,
        offset: i64,
    },
    /// The partition has not moved for long, because of this record.
    Stalled {
        partition: PartitionId,
        offset: i64,
        why: StallReason,
        since_ms: i64,
        /// What is done about it.
        action: WhenStalled,
        /// Whose calls are cancelled because of it, as they are called from now on.
        cancelled: Vec<RecordId>,
    },
    /// So many owners died here: from this offset on one record is handed out at a time, until it is past what they had.
    Isolating {
        partition: PartitionId,
        offset: i64,
        owners: u32,
    },
    /// A record is not handed out any more: so many owners died here, and the last of them had no other.
    Quarantined {
        partition: PartitionId,
        offset: i64,
        owners: u32,
    },
    /// At most once: so many records of a partition were committed and are not done, from this offset on. Nobody handles them
    /// again.
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
    /// Nothing is left to try, and the policy has no dead letters.
    Exhausted,
    /// Too many records fail for good.
    DlqLimit,
    /// A handler did not return.
    Stalled,
}

/// Why a partition does not move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StallReason {
    /// There is nothing to do.
    Idle,
    /// The handler has had the record for this long.
    InHandler { for_ms: i64, attempt: u32 },
    /// It failed, and is tried again then.
    WaitsForRetry { until_ms: i64, attempt: u32 },
    /// It is in a retry topic, and its time has not come.
    NotDue { until_ms: i64 },
    /// A breaker is not closed.
    Breaker(BreakerId),
    /// Its retry topic, dead letter or what it emitted is not acknowledged; `failing` if that was refused
    /// before, or has taken longer than 5 s.
    Publishing { failing: bool },
    /// Its offset is not committed at most once; or that somebody begins here is not.
    WaitsForCommit,
    /// Owners died here, so that one record is handed out at a time, and this is not the one.
    Isolating,
    /// The commit could not tell that it is done.
    WaitsForMap,
    /// The handler is at its limit: concurrency, bulkhead or rate.
    WaitsForHandler,
    /// Somebody has to look at it.
    Stopped(StopReason),
    /// It is being given back.
    Revoking,
    /// The user has paused it.
    User,
}
