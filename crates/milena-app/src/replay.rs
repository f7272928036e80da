//! Reading a stretch of topics once more, with the handlers of an application: replay, repair, back-fill.

use std::{collections::BTreeMap, time::Duration};

use milena_client::consumer::TopicPartition;

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
/// Partitions are assigned by hand: the application's group, and where it stands, are not touched. How far a replay is, is
/// committed for a group of its own, `<group>.<name>`; one that was interrupted goes on there when it is started again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a replay does something when an application is given it"]
pub struct Replay {
    pub(crate) name: String,
    pub(crate) from: ReplayFrom,
    pub(crate) to: ReplayTo,
}

impl Replay {
    /// A replay from the beginning to the end. Its name tells it from others, and lets it go on after an interruption.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            from: ReplayFrom::Beginning,
            to: ReplayTo::End,
        }
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
    /// Which part of each partition, from the first offset to that behind the last.
    pub partitions: BTreeMap<TopicPartition, (i64, i64)>,
    pub took: Duration,
    pub counts: Vec<crate::HandlerCounts>,
}
