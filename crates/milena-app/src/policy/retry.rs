//! Trying again.

use std::time::Duration;

use milena_machines::app::RetryOrdering;

/// How often and when a record that failed is tried again.
///
/// ```
/// use std::time::Duration;
/// use milena_app::policy::Retry;
///
/// let patient = Retry::exponential(Duration::from_millis(200), Duration::from_secs(30)).attempts(8);
/// let never = Retry::none();
/// ```
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a retry does something in a policy"]
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
    /// 5 attempts, the first included; waits of 100 ms, doubling up to 10 s, each up to a quarter shorter or longer; at
    /// most 30 s for all of them. After that, the retry topics if there are any, then the dead letters.
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
    /// Waits that double from the first to the longest; all else as by default.
    pub fn exponential(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            ..Self::default()
        }
    }

    /// One attempt, and none after it.
    pub fn none() -> Self {
        Self {
            attempts: 1,
            ..Self::default()
        }
    }

    /// How often the handler is called for a record in all; the first time counts.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// By how much a wait is shorter or longer than it should be, so that not all come back at once.
    pub fn jitter_percent(mut self, percent: u8) -> Self {
        self.jitter_percent = percent;
        self
    }

    /// How long a record is tried in its place since it failed first, whatever attempts are left.
    pub fn elapsed_max(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.elapsed_max = time.into();
        self
    }

    /// How often a record that comes from a retry topic is tried before it goes to the next: 1.
    pub fn attempts_from_topics(mut self, attempts: u32) -> Self {
        self.attempts_from_topics = attempts;
        self
    }
}
