//! Status of an application: load, health, and the reason why a partition makes no progress.

use std::{fmt, ops::AddAssign};

use milena_client::consumer::TopicPartition;
pub use milena_machines::app::{BreakerState, PauseReason, StallReason, StopReason};

/// Snapshot of an application.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// Records that are fetched and not done.
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    pub in_handlers: u64,
    /// Records that wait for an acknowledgement of their output, retry record or dead letter.
    pub publishing: u64,
    /// Whether a transaction is being committed or aborted.
    pub is_ending_transaction: bool,
    /// Records that wait for a retry.
    pub parked: u64,
    /// Finished records that a crash would repeat.
    pub replay_if_crashed_now: u64,
    /// Whether all consumers have joined their groups.
    pub has_joined: bool,
    pub partitions: Vec<PartitionStatus>,
    pub breakers: Vec<BreakerStatus>,
    pub background: Vec<BackgroundStatus>,
    /// Reason why the application cannot continue, if there is one.
    pub failure: Option<String>,
}

/// Status of a [background task](crate::App::background).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackgroundStatus {
    pub name: String,
    /// Reason why the task makes no progress, if there is one.
    pub problem: Option<String>,
}

/// Status of an assigned partition.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PartitionStatus {
    pub partition: TopicPartition,
    /// Group that reads the partition; a retry topic has a group of its own.
    pub group: String,
    pub committed: Option<i64>,
    /// Lowest offset that is not done.
    pub frontier: i64,
    /// Next offset to be fetched.
    pub end: i64,
    pub records: u64,
    pub replay_if_crashed_now: u64,
    /// Reasons why the partition is paused, each with its start in milliseconds since 1970.
    pub paused: Vec<(PauseReason, i64)>,
    /// Reason why the record at the frontier is not done.
    pub why: StallReason,
    /// Known reason why an acknowledgement is missing: unavailable topics and unreachable brokers of the producer. Set
    /// while [`why`](Self::why) is [`StallReason::Publishing`].
    pub publish_problem: Option<String>,
    /// The crash guard hands out one record at a time: see [`App::crash_limit`](crate::App::crash_limit).
    pub is_isolating: bool,
}

/// Status of a circuit breaker.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BreakerStatus {
    pub name: String,
    pub state: BreakerState,
    /// Percentage of failed calls in the window, if it has enough calls.
    pub failure_percent: Option<u32>,
    /// Number of calls that the breaker delayed.
    pub not_permitted: u64,
    /// Number of times the breaker has opened.
    pub opened: u64,
}

impl Status {
    /// Returns whether the application works: no failure, no stopped partition, no write that is overdue by 5 s, and no
    /// background task with a problem. An
    /// open breaker or a slow handler does not count: a restart would not help.
    pub fn is_healthy(&self) -> bool {
        let is_well = |task: &BackgroundStatus| task.problem.is_none();
        self.failure.is_none() && self.stuck().next().is_none() && self.background.iter().all(is_well)
    }

    /// Partitions that have stopped, or whose output cannot be written.
    pub(crate) fn stuck(&self) -> impl Iterator<Item = &PartitionStatus> {
        let is_stuck =
            |why: &StallReason| matches!(why, StallReason::Stopped(_) | StallReason::Publishing { failing: true });
        self.partitions.iter().filter(move |partition| is_stuck(&partition.why))
    }

    /// Returns whether the application is healthy and has joined its groups, also with no partition assigned.
    pub fn is_ready(&self) -> bool {
        self.is_healthy() && (!self.partitions.is_empty() || self.has_joined)
    }

    /// The JSON document of `/status`.
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
                "is_isolating": partition.is_isolating,
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
        let background = self.background.iter().map(|task| {
            serde_json::json!({
                "name": task.name,
                "problem": task.problem,
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
            "background": background.collect::<Vec<_>>(),
        })
    }

    /// Returns whether nothing happens without new records or the passing of time.
    pub fn is_idle(&self) -> bool {
        self.in_handlers == 0 && self.publishing == 0 && !self.is_ending_transaction
    }
}

/// Adds up the parts of one application.
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

impl PartitionStatus {
    /// Returns whether the record at the frontier waits for an acknowledgement.
    pub(crate) fn is_publishing(&self) -> bool {
        matches!(self.why, StallReason::Publishing { .. })
    }
}

impl fmt::Display for PartitionStatus {
    /// One line for operators: the load, and the reasons of waits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} @ {} of {}: ", self.partition, self.frontier, self.end)?;
        match self.why {
            StallReason::Idle => f.write_str("idle")?,
            StallReason::InHandler { for_ms, attempt } => {
                write!(f, "in the handler for {for_ms} ms, attempt {attempt}")?
            }
            StallReason::WaitsForRetry { attempt, .. } => write!(f, "failed, waiting for attempt {}", attempt + 1)?,
            StallReason::NotDue { .. } => f.write_str("waiting for its due time")?,
            StallReason::Breaker(_) => f.write_str("waiting for a circuit breaker")?,
            StallReason::Publishing { failing: false } => f.write_str("waiting for an acknowledgement")?,
            StallReason::Publishing { failing: true } => {
                f.write_str("writing its output, retry or dead letter fails")?
            }
            StallReason::WaitsForCommit => f.write_str("waiting for the commit of its offset")?,
            StallReason::Isolating => f.write_str("waiting for its turn in isolation")?,
            StallReason::WaitsForMap => f.write_str("waiting for a commit, because the commit metadata is full")?,
            StallReason::WaitsForHandler => {
                f.write_str("waiting for its handler, which is at its concurrency limit")?
            }
            StallReason::Stopped(why) => write!(f, "stopped ({why:?}); fix the cause and restart the partition")?,
            StallReason::Revoking => f.write_str("being revoked")?,
            StallReason::User => f.write_str("paused by the user")?,
        }
        if let Some(problem) = &self.publish_problem {
            write!(f, " ({problem})")?;
        }
        if self.is_isolating {
            f.write_str("; isolating: one record at a time after crashes")?;
        }
        if !self.paused.is_empty() {
            let reasons: Vec<String> = self.paused.iter().map(|(reason, _)| format!("{reason:?}")).collect();
            write!(f, "; paused: {}", reasons.join(", "))?;
        }
        Ok(())
    }
}
