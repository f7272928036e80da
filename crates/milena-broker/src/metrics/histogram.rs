//! A histogram of durations.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// The upper bounds of the buckets, in microseconds. The last bucket has none.
pub(super) const BOUNDS_US: [u64; 14] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
];

#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// Each counts the durations that are above the bound before it, up to its own.
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The state of a histogram at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// The number of durations up to each bound; the last is that of all.
    pub(super) cumulative: [u64; BOUNDS_US.len() + 1],
    pub(super) sum_us: u64,
}

impl Histogram {
    pub(super) fn record(&self, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let mut total = 0;
        let cumulative = self.buckets.each_ref().map(|bucket| {
            total += bucket.load(Ordering::Relaxed);
            total
        });
        Snapshot {
            cumulative,
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

impl Snapshot {
    pub(super) fn count(&self) -> u64 {
        self.cumulative.last().copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_up_to_each_bound_that_it_does_not_exceed() {
        let histogram = Histogram::default();
        for us in [100, 101, 6_000_000] {
            histogram.record(Duration::from_micros(us));
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.cumulative[..2], [1, 2]);
        assert_eq!(snapshot.cumulative[13..], [2, 3]);
        assert_eq!((snapshot.count(), snapshot.sum_us), (3, 6_000_201));
    }
}
