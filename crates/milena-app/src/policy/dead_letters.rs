//! Where records go that fail for good.

use std::time::Duration;

use crate::failure::Scheme;

/// What happens with a record when nothing is left to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// It is written to the dead letters. Its offset moves on when they have acknowledged it.
    DeadLetter,
    /// It counts as done, and as skipped. It is lost to this group.
    Skip,
    /// Its partition stands still until somebody looks. Others go on, and the application is not healthy.
    Stop,
}

/// How dead letters and retry topics are written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "dead letters do something in a policy"]
pub struct DeadLetters {
    pub(crate) topic: Option<String>,
    pub(crate) schemes: Vec<Scheme>,
    pub(crate) with_stack: bool,
    pub(crate) create: bool,
    pub(crate) retention: Option<Duration>,
}

impl Default for DeadLetters {
    fn default() -> Self {
        Self {
            topic: None,
            schemes: vec![Scheme::Milena],
            with_stack: true,
            create: true,
            retention: None,
        }
    }
}

impl DeadLetters {
    /// How long topics keep their records that are made, unless told otherwise.
    pub(crate) const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

    /// All of them in this topic, instead of `<topic>.dlq` for each.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Under which names the headers are written; several are possible. [`Scheme::Milena`] is the default, also for an empty
    /// list. All are read.
    pub fn schemes(mut self, schemes: impl IntoIterator<Item = Scheme>) -> Self {
        self.schemes = schemes.into_iter().collect();
        self
    }

    /// Leaves the chain of errors out, which may say more than others should know.
    pub fn without_stack(mut self) -> Self {
        self.with_stack = false;
        self
    }

    /// Does not make topics that are missing: then it is an error when the application starts. By default they are made,
    /// with as many partitions as the topic they belong to.
    pub fn existing_topics_only(mut self) -> Self {
        self.create = false;
        self
    }

    /// How long dead letter topics that are made keep their records: by default 30 days, or as long as the topic that they
    /// are from if that is longer. Retry topics keep theirs for at least as long as that topic in any case, and for their
    /// delay. A topic that is there already is not changed; a warning names each setting by which it may lose records.
    pub fn retention(mut self, time: Duration) -> Self {
        self.retention = Some(time);
        self
    }
}
