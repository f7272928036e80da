//! Circuit breakers, rate limits and the DLQ limit.

use std::time::Duration;

use milena_machines::app::BreakerAttempts;
pub use milena_machines::app::{WhenFull, WhenOpen};

/// A circuit breaker around a dependency of handlers. Handlers name it in their policies and report failures with
/// [`Fault::dependency`](crate::handler::Fault::dependency).
///
/// A closed breaker counts calls. While it is open the partitions of its handlers pause, unless
/// [`when_open`](Self::when_open) says otherwise. Then a few calls probe the dependency: if they succeed the breaker
/// closes, otherwise it stays open for twice as long.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a breaker has no effect until it is added to an application"]
pub struct Breaker {
    pub(crate) failure_percent: u8,
    pub(crate) calls: u32,
    pub(crate) calls_min: u32,
    pub(crate) open: Duration,
    pub(crate) open_max: Duration,
    pub(crate) probes: u32,
    pub(crate) when_open: WhenOpen,
    pub(crate) attempts: BreakerAttempts,
}

impl Default for Breaker {
    /// Opens when 50 percent of the last 10 calls failed, for 30 s, up to 5 min, and probes with 3 calls.
    fn default() -> Self {
        Self {
            failure_percent: 50,
            calls: 10,
            calls_min: 10,
            open: Duration::from_secs(30),
            open_max: Duration::from_secs(300),
            probes: 3,
            when_open: WhenOpen::Pause,
            attempts: BreakerAttempts::WhileClosed,
        }
    }
}

impl Breaker {
    /// Breaker around a handler that is a program or a service. It opens with the first call that does not reach the
    /// handler, and probes after 1 s, then after twice as long each time, up to 30 s. Such a call uses up no attempt.
    pub(crate) fn around_handler() -> Self {
        let mut breaker = Self::default().failure_percent(100).calls(1).probes(1);
        (breaker.open, breaker.open_max) = (Duration::from_secs(1), Duration::from_secs(30));
        breaker.attempts = BreakerAttempts::Never;
        breaker
    }

    /// Percentage of failed calls that opens the breaker.
    pub fn failure_percent(mut self, percent: u8) -> Self {
        self.failure_percent = percent;
        self
    }

    /// Size of the window of calls in which failures are counted.
    pub fn calls(mut self, calls: u32) -> Self {
        (self.calls, self.calls_min) = (calls, calls);
        self
    }

    /// Number of calls in the window below which the breaker stays closed.
    pub fn calls_min(mut self, calls: u32) -> Self {
        self.calls_min = calls;
        self
    }

    /// Time for which the breaker stays open before it probes.
    pub fn open(mut self, time: Duration) -> Self {
        self.open = time;
        self.open_max = self.open_max.max(time);
        self
    }

    /// Bound of that time, which doubles with every failed probe.
    pub fn open_max(mut self, time: Duration) -> Self {
        self.open_max = time;
        self
    }

    /// Reaction to records while the breaker is open. [`WhenOpen::Pause`], the default, lets them wait.
    /// [`WhenOpen::DeadLetter`] writes dead letters without calling the handler: partitions keep moving, and dead
    /// letters accumulate; a [`DlqLimit`] bounds that. The handlers must then have a dead letter topic.
    pub fn when_open(mut self, when_open: WhenOpen) -> Self {
        self.when_open = when_open;
        self
    }

    /// Number of probing calls.
    pub fn probes(mut self, calls: u32) -> Self {
        self.probes = calls;
        self
    }
}

/// Rate limit in records per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub(crate) per_second: u32,
    pub(crate) burst: u32,
}

impl Rate {
    /// An even rate, with a burst of a tenth of a second after an idle time.
    pub fn per_second(records: u32) -> Self {
        Self {
            per_second: records,
            burst: (records / 10).max(1),
        }
    }

    /// Number of records that may be handled at once after an idle time.
    #[must_use]
    pub fn burst(mut self, records: u32) -> Self {
        self.burst = records;
        self
    }
}

/// Limit of dead letters of a partition. When it is reached the partition stops, and its records stay uncommitted: many
/// failures in a short time usually have one external cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlqLimit {
    pub(crate) percent: u8,
    pub(crate) window: u32,
    pub(crate) consecutive: u32,
}

impl Default for DlqLimit {
    /// Half of the last 1,000 records, or 100 in a row.
    fn default() -> Self {
        Self {
            percent: 50,
            window: 1_000,
            consecutive: 100,
        }
    }
}

impl DlqLimit {
    pub fn new(percent: u8, window: u32, consecutive: u32) -> Self {
        Self {
            percent,
            window,
            consecutive,
        }
    }
}
