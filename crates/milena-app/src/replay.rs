//! Replays: handling a range of the topics again, for repairs and backfills.

use std::{collections::BTreeMap, fmt, time::Duration};

use milena_client::consumer::TopicPartition;

use crate::status::StopReason;

/// Start of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayFrom {
    /// The first available record.
    Beginning,
    /// The first record with this timestamp or a later one, in milliseconds since 1970.
    Time(i64),
    /// These offsets; other partitions are not read.
    Offsets(BTreeMap<TopicPartition, i64>),
}

/// End of a replay. Records written after its start are not read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayTo {
    /// The log end offsets at the start of the replay.
    End,
    /// The first record with this timestamp or a later one, in milliseconds since 1970; exclusive.
    Time(i64),
    /// These offsets, exclusive; other partitions end at their log end offset.
    Offsets(BTreeMap<TopicPartition, i64>),
}

/// A range of the topics of an application.
///
/// Partitions are assigned manually, so the application's group and its offsets do not change. Each partition ends by
/// itself, finished or not.
///
/// Progress and end offsets are committed for a group of their own, `<group>.<name>`. A replay that is started again
/// continues unfinished partitions up to the same end; records written since the first start are not read. `from` and
/// `to` apply only to partitions that the replay has not seen before. A [periodic](Self::periodic) replay continues to
/// a new end each time. To start over, use another name or delete the group. The broker deletes it, like any group,
/// after `offsets.retention.minutes` without a commit, a week by default.
///
/// Run a replay in one process. Two processes with the same replay do not share it: both handle every record and
/// overwrite each other's progress. To divide the work, give each process partitions of its own with
/// [`ReplayFrom::Offsets`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a replay has no effect until an application runs it"]
pub struct Replay {
    pub(crate) name: String,
    pub(crate) from: ReplayFrom,
    pub(crate) to: ReplayTo,
    pub(crate) is_periodic: bool,
}

impl Replay {
    /// A replay of everything. The name identifies it, so that it can continue after an interruption.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            from: ReplayFrom::Beginning,
            to: ReplayTo::End,
            is_periodic: false,
        }
    }

    /// Makes the replay periodic: each start continues where the last one ended, up to the current end. Unfinished
    /// partitions come first. By default a finished replay stays finished.
    ///
    /// Every start commits. The broker deletes the group only if the time between two starts exceeds
    /// `offsets.retention.minutes`; then the replay starts over. Do not run two at the same time: they do not share the
    /// work.
    pub fn periodic(mut self) -> Self {
        self.is_periodic = true;
        self
    }

    pub fn from(mut self, from: ReplayFrom) -> Self {
        self.from = from;
        self
    }

    pub fn to(mut self, to: ReplayTo) -> Self {
        self.to = to;
        self
    }
}

/// Result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// Range of each partition that was left at the start: first offset and exclusive end.
    pub partitions: BTreeMap<TopicPartition, (i64, i64)>,
    /// Partitions that did not reach their end.
    pub unfinished: BTreeMap<TopicPartition, UnfinishedPartition>,
    pub took: Duration,
    pub counts: Vec<crate::HandlerCounts>,
}

/// Some partitions of a replay did not reach their end. The same replay continues with them when it is started again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ReplayUnfinished {
    pub report: ReplayReport,
}

impl fmt::Display for ReplayUnfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, all) = (self.report.unfinished.len(), self.report.partitions.len());
        write!(f, "{left} of {all} partitions did not reach the end of the replay")?;
        for (place, (partition, unfinished)) in self.report.unfinished.iter().enumerate() {
            write!(f, "{} {partition} {unfinished}", if place == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

/// A partition that did not reach its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedPartition {
    /// Offset at which the next start continues.
    pub reached: i64,
    /// End offset, exclusive.
    pub end: i64,
    pub why: UnfinishedReason,
}

impl fmt::Display for UnfinishedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is at offset {} of {}: {}", self.reached, self.end, self.why)
    }
}

/// Reason why a partition did not reach its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnfinishedReason {
    #[error("stopped at offset {offset} ({why:?}){}{reason}", if reason.is_empty() { "" } else { ": " })]
    Stopped {
        offset: i64,
        why: StopReason,
        /// Text of the handler's error, if there is one.
        reason: String,
    },
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("the log ends at {log_end}: the topic was recreated, and the records are gone")]
    Shorter { log_end: i64 },
    #[error("its last commit timed out")]
    NotCommitted,
}
