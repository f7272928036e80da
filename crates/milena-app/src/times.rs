//! Time budget of a consumer.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::clock::{Clock, nanos};

/// Reason why a poll waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waiting {
    /// No partition has new records.
    Idle,
    /// Partitions with new records are paused.
    Paused,
    /// A fetch is in flight.
    Fetch,
}

/// Counters of one consumer, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct TimeMeter {
    group: String,
    topics: String,
    idle: AtomicU64,
    paused: AtomicU64,
    fetch: AtomicU64,
    rebalance: AtomicU64,
    decode: AtomicU64,
    /// Whole calls, including the decoding of arguments.
    calls: AtomicU64,
    commit: AtomicU64,
}

impl TimeMeter {
    pub(crate) fn new(group: &str, topics: &str) -> Self {
        Self {
            group: group.to_owned(),
            topics: topics.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// Counts a poll; the time of rebalances within it is counted separately.
    pub(crate) fn polled(&self, waiting: Waiting, took: Duration, rebalanced: Duration) {
        let counter = match waiting {
            Waiting::Idle => &self.idle,
            Waiting::Paused => &self.paused,
            Waiting::Fetch => &self.fetch,
        };
        add(counter, nanos(took.saturating_sub(rebalanced)));
    }

    pub(crate) fn rebalanced(&self, took: Duration) {
        add(&self.rebalance, nanos(took));
    }

    /// Total time of rebalances.
    pub(crate) fn rebalance(&self) -> Duration {
        read(&self.rebalance)
    }

    pub(crate) fn decoded(&self, took_ns: u64) {
        add(&self.decode, took_ns);
    }

    pub(crate) fn called(&self, took_ns: u64) {
        add(&self.calls, took_ns);
    }

    pub(crate) fn committed(&self, took: Duration) {
        add(&self.commit, nanos(took));
    }

    pub(crate) fn snapshot(&self) -> ConsumerTimes {
        let decode = read(&self.decode);
        ConsumerTimes {
            group: self.group.clone(),
            topics: self.topics.clone(),
            idle: read(&self.idle),
            paused: read(&self.paused),
            fetch: read(&self.fetch),
            rebalance: read(&self.rebalance),
            decode,
            handler: read(&self.calls).saturating_sub(decode),
            commit: read(&self.commit),
        }
    }
}

fn add(counter: &AtomicU64, ns: u64) {
    counter.fetch_add(ns, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> Duration {
    Duration::from_nanos(counter.load(Ordering::Relaxed))
}

/// End of a call's argument extraction. A worker has one of these and lends it to one call at a time.
#[derive(Debug)]
pub(crate) struct ReadMark {
    clock: Clock,
    origin: Instant,
    /// Nanoseconds since `origin` plus 1; 0 is unset.
    at_ns: AtomicU64,
}

impl ReadMark {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            clock: clock.clone(),
            origin: clock.instant(),
            at_ns: AtomicU64::new(0),
        }
    }

    pub(crate) fn set(&self) {
        let at = self.clock.instant().saturating_duration_since(self.origin);
        self.at_ns.store(nanos(at).saturating_add(1), Ordering::Relaxed);
    }

    /// Duration of an extraction that started at `began`, if it has ended.
    pub(crate) fn take(&self, began: Instant) -> Option<u64> {
        let at_ns = self.at_ns.swap(0, Ordering::Relaxed).checked_sub(1)?;
        Some(at_ns.saturating_sub(nanos(began.saturating_duration_since(self.origin))))
    }
}

/// Time budget of a consumer since the application started.
///
/// `idle`, `paused`, `fetch` and `rebalance` are disjoint times of the consumer's own task. Handlers run in parallel
/// with it and with each other: `decode` and `handler` are sums over all calls and can exceed the elapsed time. Commits
/// run in parallel too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerTimes {
    /// Group of the consumer; a retry topic has a group of its own.
    pub group: String,
    /// Names or patterns of its topics.
    pub topics: String,
    /// No record was available, or no partition was assigned.
    pub idle: Duration,
    /// Records were available but paused: handlers are at their bounds, a breaker is open, or a user has paused the
    /// partition.
    pub paused: Duration,
    /// A fetch was awaited, checked and decompressed.
    pub fetch: Duration,
    /// A rebalance was under way, including the wait for handlers of revoked partitions.
    pub rebalance: Duration,
    /// Handlers decoded their arguments, such as [`Event`](crate::handler::Event). The first call of each command is
    /// measured and extrapolated to the others; batches are measured in full.
    pub decode: Duration,
    /// Handlers ran, or waited for something.
    pub handler: Duration,
    /// Commits, or committed transactions with offsets of this consumer, were under way.
    pub commit: Duration,
}

impl ConsumerTimes {
    /// All parts with their names in metrics.
    pub fn parts(&self) -> [(&'static str, Duration); 7] {
        [
            ("idle", self.idle),
            ("paused", self.paused),
            ("fetch", self.fetch),
            ("rebalance", self.rebalance),
            ("decode", self.decode),
            ("handler", self.handler),
            ("commit", self.commit),
        ]
    }
}

impl fmt::Display for ConsumerTimes {
    /// One line for operators: the shares of all parts but `idle`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", self.group, self.topics)?;
        let busy: Duration = self.parts().into_iter().skip(1).map(|(_, time)| time).sum();
        if busy.is_zero() {
            return f.write_str("no activity");
        }
        for (place, (name, time)) in self.parts().into_iter().skip(1).enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let percent = time.as_secs_f64() / busy.as_secs_f64() * 100.0;
            write!(f, "{comma}{name} {percent:.0} %")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_no_work_of_the_handler() {
        let clock = Clock::manual();
        let mark = ReadMark::new(&clock);
        clock.advance(Duration::from_secs(1));
        let began = clock.instant();
        assert_eq!(mark.take(began), None);
        clock.advance(Duration::from_millis(3));
        mark.set();
        clock.advance(Duration::from_millis(9));
        let meter = TimeMeter::new("billing", "orders");
        meter.decoded(mark.take(began).unwrap());
        meter.called(nanos(clock.instant() - began));
        assert_eq!(mark.take(began), None);
        meter.polled(Waiting::Fetch, Duration::from_millis(10), Duration::from_millis(4));
        meter.rebalanced(Duration::from_millis(4));
        let times = meter.snapshot();
        assert_eq!(times.decode, Duration::from_millis(3));
        assert_eq!(times.handler, Duration::from_millis(9));
        assert_eq!(times.fetch, Duration::from_millis(6));
        assert_eq!(
            times.to_string(),
            "billing (orders): paused 0 %, fetch 27 %, rebalance 18 %, decode 14 %, handler 41 %, commit 0 %"
        );
    }
}
