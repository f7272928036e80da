//! Reading a stretch of topics once more, with the handlers of an application: replay, repair, back-fill.

use std::{collections::BTreeMap, fmt, time::Duration};

use milena_client::consumer::TopicPartition;

use crate::status::StopReason;

/// Where a replay begins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayFrom {
    /// With the first record that there is.
    Beginning,
    /// With the first record that is not older, in milliseconds since 1970.
    Time(i64),
    /// With these offsets; partitions that are not named are not read.
    Offsets(BTreeMap<TopicPartition, i64>),
}

/// Where a replay ends. It always ends: what is written meanwhile is not read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayTo {
    /// Where partitions end when it starts.
    End,
    /// Before the first record that is not older, in milliseconds since 1970.
    Time(i64),
    /// Before these offsets; partitions that are not named end where they end now.
    Offsets(BTreeMap<TopicPartition, i64>),
}

/// A stretch of the topics of an application.
///
/// Partitions are assigned by hand: the application's group, and where it stands, are not touched. Each is a piece of work of
/// its own, which ends when it is done or cannot go on, whatever becomes of the others.
///
/// How far a replay is, and where it ends, is committed for a group of its own, `<group>.<name>`. One that is started again
/// goes on with what is not finished, where it was, up to the same ends: what was written since the first start is not read.
/// For what it has begun, `from` and `to` mean nothing any more; for partitions that it has never seen they are looked at as
/// on the first day. A [periodic](Self::periodic) one goes on to new ends each time. To do it all once more, take another name, or delete the group. A broker forgets it, as any group, when
/// nothing was committed for `offsets.retention.minutes`, a week by default.
///
/// One process runs a replay. Two that run the same one do not share it: both handle every record, and each overwrites how
/// far the other is. Those who want to share the work give each process partitions of its own, with
/// [`ReplayFrom::Offsets`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a replay does something when an application is given it"]
pub struct Replay {
    pub(crate) name: String,
    pub(crate) from: ReplayFrom,
    pub(crate) to: ReplayTo,
    pub(crate) is_periodic: bool,
}

impl Replay {
    /// A replay from the beginning to the end. Its name tells it from others, and lets it go on after an interruption.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            from: ReplayFrom::Beginning,
            to: ReplayTo::End,
            is_periodic: false,
        }
    }

    /// A periodic load: each start goes on where the last one ended, up to the ends as they are now, and ends there. What an
    /// interrupted start has left comes first. By default a replay that is done stays so.
    ///
    /// Every start commits, so a broker forgets the group only if the time between two starts is longer than
    /// `offsets.retention.minutes`; then it begins anew. Run one at a time: two at once do not share the work.
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

/// What a replay has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayReport {
    /// Which part of each partition was left, from the first offset to that behind the last.
    pub partitions: BTreeMap<TopicPartition, (i64, i64)>,
    /// Those that have not come to their end.
    pub unfinished: BTreeMap<TopicPartition, Unfinished>,
    pub took: Duration,
    pub counts: Vec<crate::HandlerCounts>,
}

/// Not all partitions of a replay have come to their end. Started again, it goes on with those.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ReplayUnfinished {
    pub report: ReplayReport,
}

impl fmt::Display for ReplayUnfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, all) = (self.report.unfinished.len(), self.report.partitions.len());
        write!(f, "{left} of {all} partitions were not replayed to their end")?;
        for (place, (partition, unfinished)) in self.report.unfinished.iter().enumerate() {
            write!(f, "{} {partition} {unfinished}", if place == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

/// A partition that a replay has not read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Where the next run goes on: all before is done.
    pub reached: i64,
    /// Where it is to end.
    pub end: i64,
    pub why: UnfinishedWhy,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stands at offset {} of {}: {}", self.reached, self.end, self.why)
    }
}

/// Why a partition was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnfinishedWhy {
    #[error("offset {offset} has stopped it ({why:?}){}{reason}", if reason.is_empty() { "" } else { ": " })]
    Stopped {
        offset: i64,
        why: StopReason,
        /// What the handler said, if it did.
        reason: String,
    },
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("it ends at {log_end} by now: its topic was made anew, and what was to be read is gone")]
    Shorter { log_end: i64 },
    #[error("its last commit did not succeed in time")]
    NotCommitted,
}
