//! By time.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use super::{Choice, PartitionInput, Partitioner, Partitions, murmur2};

/// Records of one stretch of time go to one partition, those of the next to the next: who wants an hour reads one
/// partition. Their timestamps count, not when they are sent.
///
/// All writers of the moment meet in one partition. Where that is too much, [`spread`](Self::spread) gives each stretch
/// several, among which the key decides; records without a key take turns.
#[derive(Debug)]
pub struct TimeBucket {
    bucket_ms: i64,
    spread: u32,
    counter: AtomicU32,
}

impl TimeBucket {
    /// Counted from 1970, in UTC; at least a millisecond.
    pub fn new(bucket: Duration) -> Self {
        Self {
            bucket_ms: i64::try_from(bucket.as_millis()).unwrap_or(i64::MAX).max(1),
            spread: 1,
            counter: AtomicU32::new(0),
        }
    }

    /// How many partitions a stretch of time has; at least one.
    #[must_use]
    pub fn spread(mut self, partitions: u32) -> Self {
        self.spread = partitions.max(1);
        self
    }
}

impl Partitioner for TimeBucket {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let spread = self.spread.min(partitions.divisor());
        let step = match record.key {
            _ if spread == 1 => 0,
            Some(key) => murmur2(key) & 0x7fff_ffff,
            None => self.counter.fetch_add(1, Ordering::Relaxed),
        };
        let bucket = i128::from(record.timestamp_ms.div_euclid(self.bucket_ms));
        let place = bucket * i128::from(spread) + i128::from(step % spread);
        let place = place.rem_euclid(i128::from(partitions.divisor()));
        Choice::Partition(i32::try_from(place).unwrap_or_default())
    }
}
