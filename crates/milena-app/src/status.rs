//! What an application can tell about itself: how much there is, how it goes, and why a partition is not moving.

use std::{fmt, ops::AddAssign};

use milena_client::consumer::TopicPartition;
pub use milena_machines::app::{BreakerState, PauseReason, StallReason, StopReason};

/// An application at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// Records that were fetched and are not done.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    pub in_handlers: u64,
    /// Waiting for an acknowledgement of what they emitted, their retry topic or their dead letter.
    pub publishing: u64,
    /// Whether a transaction is being committed or aborted.
    pub is_ending_transaction: bool,
    /// Waiting to be tried again.
    pub parked: u64,
    /// So many records that are done would be done again after a crash.
    pub replay_if_crashed_now: u64,
    /// Whether all of its consumers are members of their groups.
    pub has_joined: bool,
    pub partitions: Vec<PartitionStatus>,
    pub breakers: Vec<BreakerStatus>,
    /// Why it cannot go on, if so.
    pub failure: Option<String>,
}

/// A partition that is ours.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PartitionStatus {
    pub partition: TopicPartition,
    /// The group it is read for; that of a retry topic has a name of its own.
    pub group: String,
    pub committed: Option<i64>,
    /// The lowest offset that is not done.
    pub frontier: i64,
    /// The next offset that can come.
    pub end: i64,
    pub records: u64,
    pub replay_if_crashed_now: u64,
    /// Why nothing of it is fetched, and since when, in milliseconds since 1970.
    pub paused: Vec<(PauseReason, i64)>,
    /// Why its lowest record that is not done is not.
    pub why: StallReason,
    /// One record is handled at a time, because processes ended here: see [`App::crash_limit`](crate::App::crash_limit).
    pub is_careful: bool,
}

/// A circuit breaker.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BreakerStatus {
    pub name: String,
    pub state: BreakerState,
    /// Of the last calls, if there were enough of them.
    pub failure_percent: Option<u32>,
    /// How often a call had to wait because of it.
    pub not_permitted: u64,
    /// How often it has opened.
    pub opened: u64,
}

impl Status {
    /// Whether it does what it should: nothing has failed or stopped, and what must be written is, within 5 s. A breaker that is
    /// open, or a handler that is slow, is no reason to start it anew.
    pub fn is_healthy(&self) -> bool {
        self.failure.is_none() && self.stuck().next().is_none()
    }

    /// The partitions that have stopped, or whose output cannot be written.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = &PartitionStatus> {
        let is_stuck =
            |why: &StallReason| matches!(why, StallReason::Stopped(_) | StallReason::Publishing { failing: true });
        self.partitions.iter().filter(move |partition| is_stuck(&partition.why))
    }

    /// Whether it takes part: it is healthy, and has partitions or is a member of its groups. An instance for which no
    /// partitions are left is ready too.
    pub fn is_ready(&self) -> bool {
        self.is_healthy() && (!self.partitions.is_empty() || self.has_joined)
    }

    /// The JSON that the endpoint shows at `/status`.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let partitions = self.partitions.iter().map(|partition| {
            let paused = partition.paused.iter().map(|(reason, _)| format!("{reason:?}"));
            serde_json::json!({
                "topic": &*partition.partition.topic,
                "partition": partition.partition.partition,
                "group": partition.group,
                "committed": partition.committed,
                "frontier": partition.frontier,
                "end": partition.end,
                "records": partition.records,
                "replay_if_crashed_now": partition.replay_if_crashed_now,
                "paused": paused.collect::<Vec<_>>(),
                "why": partition.to_string(),
                "is_careful": partition.is_careful,
            })
        });
        let breakers = self.breakers.iter().map(|breaker| {
            serde_json::json!({
                "name": breaker.name,
                "state": format!("{:?}", breaker.state),
                "failure_percent": breaker.failure_percent,
                "not_permitted": breaker.not_permitted,
                "opened": breaker.opened,
            })
        });
        serde_json::json!({
            "healthy": self.is_healthy(),
            "ready": self.is_ready(),
            "failure": self.failure,
            "records": self.records,
            "bytes": self.bytes,
            "in_handlers": self.in_handlers,
            "publishing": self.publishing,
            "parked": self.parked,
            "replay_if_crashed_now": self.replay_if_crashed_now,
            "partitions": partitions.collect::<Vec<_>>(),
            "breakers": breakers.collect::<Vec<_>>(),
        })
    }

    /// Whether nothing more happens unless something comes, or time passes.
    pub fn is_idle(&self) -> bool {
        self.in_handlers == 0 && self.publishing == 0 && !self.is_ending_transaction
    }
}

/// Several instances together.
impl AddAssign for Status {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.in_handlers += other.in_handlers;
        self.publishing += other.publishing;
        self.is_ending_transaction |= other.is_ending_transaction;
        self.parked += other.parked;
        self.has_joined &= other.has_joined;
        self.replay_if_crashed_now += other.replay_if_crashed_now;
        self.partitions.extend(other.partitions);
        self.breakers.extend(other.breakers);
        self.failure = self.failure.take().or(other.failure);
    }
}

impl fmt::Display for PartitionStatus {
    /// A line for people: where it stands, and why it does not move.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} @ {} of {}: ", self.partition, self.frontier, self.end)?;
        match self.why {
            StallReason::Idle => f.write_str("nothing to do")?,
            StallReason::InHandler { for_ms, attempt } => {
                write!(f, "in its handler for {for_ms} ms, attempt {attempt}")?
            }
            StallReason::WaitsForRetry { attempt, .. } => write!(f, "failed, waits for attempt {}", attempt + 1)?,
            StallReason::NotDue { .. } => f.write_str("waits until it is due")?,
            StallReason::Breaker(_) => f.write_str("waits for a circuit breaker")?,
            StallReason::Publishing { failing: false } => f.write_str("waits for an acknowledgement")?,
            StallReason::Publishing { failing: true } => f.write_str("what it needs is not written")?,
            StallReason::WaitsForCommit => f.write_str("waits for the commit of its offset")?,
            StallReason::Isolating => f.write_str("waits for its turn")?,
            StallReason::WaitsForMap => f.write_str("waits for a commit that tells what is done above it")?,
            StallReason::WaitsForHandler => f.write_str("waits for its handler, which has as much as it may")?,
            StallReason::Stopped(why) => write!(f, "stopped ({why:?}): somebody has to look")?,
            StallReason::Revoking => f.write_str("is being given back")?,
            StallReason::User => f.write_str("paused by hand")?,
        }
        if self.is_careful {
            f.write_str("; careful, one record at a time, because processes ended here")?;
        }
        if !self.paused.is_empty() {
            let reasons: Vec<String> = self.paused.iter().map(|(reason, _)| format!("{reason:?}")).collect();
            write!(f, "; not fetched because of {}", reasons.join(", "))?;
        }
        Ok(())
    }
}
