//! Retries in place.

use std::time::Duration;

use milena_machines::app::RetryOrdering;

/// Number of attempts, and the backoff between them.
///
/// ```
/// use std::time::Duration;
/// use milena_app::policy::Retry;
///
/// let patient = Retry::exponential(Duration::from_millis(200), Duration::from_secs(30)).attempts(8);
/// let never = Retry::none();
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a retry policy has no effect until it is part of a policy"]
pub struct Retry {
    pub(crate) attempts: u32,
    pub(crate) first: Duration,
    pub(crate) max: Duration,
    pub(crate) jitter_percent: u8,
    pub(crate) elapsed_max: Option<Duration>,
    pub(crate) topics: Vec<Duration>,
    pub(crate) attempts_from_topics: u32,
    pub(crate) ordering: RetryOrdering,
}

impl Default for Retry {
    /// 5 attempts with a backoff of 100 ms that doubles up to 10 s, with 25 percent jitter, within 30 s. Then the retry
    /// topics, if there are any, then a dead letter.
    fn default() -> Self {
        Self {
            attempts: 5,
            first: Duration::from_millis(100),
            max: Duration::from_secs(10),
            jitter_percent: 25,
            elapsed_max: Some(Duration::from_secs(30)),
            topics: vec![],
            attempts_from_topics: 1,
            ordering: RetryOrdering::Overtake,
        }
    }
}

impl Retry {
    /// A backoff that doubles from `first` up to `max`, otherwise the defaults.
    pub fn exponential(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            ..Self::default()
        }
    }

    /// One attempt, no retries.
    pub fn none() -> Self {
        Self {
            attempts: 1,
            ..Self::default()
        }
    }

    /// Number of handler calls per record, including the first.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Random variation of each backoff in percent, so that retries do not coincide.
    pub fn jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = percent;
        self
    }

    /// Time limit of all attempts in place, counted from the first failure.
    pub fn elapsed_max(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.elapsed_max = time.into();
        self
    }

    /// Number of attempts per retry topic: 1 by default.
    pub fn attempts_from_topics(mut self, attempts: u32) -> Self {
        self.attempts_from_topics = attempts;
        self
    }
}
