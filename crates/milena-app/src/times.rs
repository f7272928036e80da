//! Where the time of a consumer goes.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use crate::clock::{Clock, nanos};

/// What a consumer waits for while it polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Waiting {
    /// For somebody to write something.
    Idle,
    /// For leave to fetch what is there.
    Paused,
    /// For what is there.
    Fetch,
}

/// What one consumer counts, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct TimeMeter {
    group: String,
    topics: String,
    idle: AtomicU64,
    paused: AtomicU64,
    fetch: AtomicU64,
    rebalance: AtomicU64,
    decode: AtomicU64,
    /// Whole calls, with what they read first.
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

    /// A poll is over that took so long; what the group wanted meanwhile is counted apart.
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

    /// How long rebalances have taken up to now.
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

/// When a call has read its arguments. A lane has one of these and gives it to one call at a time.
#[derive(Debug)]
pub(crate) struct ReadMark {
    clock: Clock,
    origin: Instant,
    /// One more than the time since `origin`; 0 is not at all.
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

    /// How long reading took that began then, if it has ended.
    pub(crate) fn take(&self, began: Instant) -> Option<u64> {
        let at_ns = self.at_ns.swap(0, Ordering::Relaxed).checked_sub(1)?;
        Some(at_ns.saturating_sub(nanos(began.saturating_duration_since(self.origin))))
    }
}

/// Where the time of a consumer has gone since the application started.
///
/// The consumer's own task is in `idle`, `paused`, `fetch` and `rebalance`, one after the other. Handlers run beside it,
/// and beside each other: `decode` and `handler` are the sums of all their calls, and so can be more than the time that
/// has passed. Commits are under way beside all of that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerTimes {
    /// The group it reads for; that of a retry topic has a name of its own.
    pub group: String,
    /// The names or patterns of its topics.
    pub topics: String,
    /// Nothing was there to be read, or no partition was ours.
    pub idle: Duration,
    /// What was there could not be fetched: handlers have as much as they may, a breaker is open, somebody has paused it.
    pub paused: Duration,
    /// There was something to be read, and it was waited for, checked and decompressed.
    pub fetch: Duration,
    /// Partitions came, or were given back, which waits for their handlers.
    pub rebalance: Duration,
    /// Handlers read their arguments: what [`Event`](crate::handler::Event) and the others make of a record. It is measured
    /// for the first of each handful of records that go to a handler together, and taken for that of the others too; for
    /// batches it is measured in all.
    pub decode: Duration,
    /// Handlers had their arguments and were at work, or waited for something.
    pub handler: Duration,
    /// Commits, or transactions that counted and had offsets of this consumer, were under way.
    pub commit: Duration,
}

impl ConsumerTimes {
    /// Each with its name, as metrics have it.
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
    /// A line for people: the shares of all but `idle`, which says nothing about what is slow.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", self.group, self.topics)?;
        let busy: Duration = self.parts().into_iter().skip(1).map(|(_, time)| time).sum();
        if busy.is_zero() {
            return f.write_str("nothing was done");
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
