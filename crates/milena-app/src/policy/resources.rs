//! What holds work back: breakers, rates, guards.

use std::time::Duration;

use milena_machines::app::BreakerAttempts;
pub use milena_machines::app::{WhenFull, WhenOpen};

/// A circuit breaker around something that handlers depend on. Handlers feed it with
/// [`Fault::dependency`](crate::handler::Fault::dependency) and name it in their policies.
///
/// Closed, it counts. Open, the partitions of its handlers pause, unless [`when_open`](Self::when_open) says otherwise. Then a few calls probe; if they go well it closes, and
/// if not it stays open twice as long.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a breaker does something in an application"]
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
    /// It opens when 50 percent of the last 10 calls failed, for 30 s and up to 5 min, and probes with 3 calls.
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
    /// The breaker around a handler that is a program or a service. It opens with the first call that does not reach the
    /// handler, and probes after 1 s, then after twice as long each time, up to 30 s. No such call is an attempt.
    pub(crate) fn around_handler() -> Self {
        let mut breaker = Self::default().failure_percent(100).calls(1).probes(1);
        (breaker.open, breaker.open_max) = (Duration::from_secs(1), Duration::from_secs(30));
        breaker.attempts = BreakerAttempts::Never;
        breaker
    }

    /// Which share of calls must fail for it to open.
    pub fn failure_percent(mut self, percent: u8) -> Self {
        self.failure_percent = percent;
        self
    }

    /// Over how many of the last calls that is counted; with fewer it stays closed.
    pub fn calls(mut self, calls: u32) -> Self {
        (self.calls, self.calls_min) = (calls, calls);
        self
    }

    /// With how many calls it may open already.
    pub fn calls_min(mut self, calls: u32) -> Self {
        self.calls_min = calls;
        self
    }

    /// How long it stays open before it probes.
    pub fn open(mut self, time: Duration) -> Self {
        self.open = time;
        self.open_max = self.open_max.max(time);
        self
    }

    /// How long it stays open at most, however often probes fail.
    pub fn open_max(mut self, time: Duration) -> Self {
        self.open_max = time;
        self
    }

    /// What becomes of records while it is open: by default they wait ([`WhenOpen::Pause`]). With
    /// [`WhenOpen::DeadLetter`] they become dead letters at once, unhandled, which keeps partitions moving and fills the
    /// dead letters for as long as it is open; a [`DlqLimit`] bounds that. Handlers that need it must have dead letters.
    pub fn when_open(mut self, when_open: WhenOpen) -> Self {
        self.when_open = when_open;
        self
    }

    /// With how many calls it probes.
    pub fn probes(mut self, calls: u32) -> Self {
        self.probes = calls;
        self
    }
}

/// So many per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub(crate) per_second: u32,
    pub(crate) burst: u32,
}

impl Rate {
    /// So many per second, evenly, with a tenth of that at once after a quiet time.
    pub fn per_second(records: u32) -> Self {
        Self {
            per_second: records,
            burst: (records / 10).max(1),
        }
    }

    /// How many may come at once after a quiet time.
    #[must_use]
    pub fn burst(mut self, records: u32) -> Self {
        self.burst = records;
        self
    }
}

/// When so many records of a partition fail for good, something else is wrong: the partition stops, and its records stay
/// where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlqLimit {
    pub(crate) percent: u8,
    pub(crate) window: u32,
    pub(crate) consecutive: u32,
}

impl Default for DlqLimit {
    /// More than half of the last 1,000, or 100 in a row.
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
