//! Dead letter policy.

use std::time::Duration;

use crate::failure::Scheme;

/// Reaction to a record whose attempts are used up, or that can never be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exhausted {
    /// Writes it to the dead letter topic. The offset is committed after the acknowledgement.
    DeadLetter,
    /// Drops the record for this group, and counts it as skipped.
    Skip,
    /// Stops the partition until it is restarted. Other partitions continue; the application reports itself unhealthy.
    Stop,
}

/// How dead letter and retry topics are created and written.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "dead letter settings have no effect until they are part of a policy"]
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
    /// Retention of created topics, unless the policy sets another.
    pub(crate) const RETENTION: Duration = Duration::from_secs(30 * 24 * 3600);

    /// Writes all dead letters to this topic, instead of `<topic>.dlq` for each topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Header schemes to write, by default and for an empty list [`Scheme::Milena`]. Every scheme is read.
    pub fn schemes(mut self, schemes: impl IntoIterator<Item = Scheme>) -> Self {
        self.schemes = schemes.into_iter().collect();
        self
    }

    /// Leaves out the causes of errors, which may contain sensitive data.
    pub fn without_stack(mut self) -> Self {
        self.with_stack = false;
        self
    }

    /// Does not create missing topics; a missing topic is then an error at start. By default topics are created with as
    /// many partitions as the original topic.
    pub fn existing_topics_only(mut self) -> Self {
        self.create = false;
        self
    }

    /// Retention of dead letter topics that the runtime creates: 30 days by default, or that of the original topic if
    /// it is longer. Retry topics keep records at least as long as the original topic, plus their delay. Existing
    /// topics are not changed; a warning names each setting that may lose records.
    pub fn retention(mut self, time: Duration) -> Self {
        self.retention = Some(time);
        self
    }
}
