//! Partitioning by time.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use super::{Choice, PartitionInput, Partitioner, Partitions, murmur2};

/// Maps each time bucket to one partition, and the next bucket to the next partition. The records of an hour are then
/// in one partition. The timestamps of the records count.
///
/// All current records go to one partition. With [`spread`](Self::spread) a bucket has several, chosen by key, or round
/// robin without a key.
#[derive(Debug)]
pub struct TimeBucket {
    bucket_ms: i64,
    spread: u32,
    counter: AtomicU32,
}

impl TimeBucket {
    /// Buckets are counted from 1970 in UTC; at least a millisecond long.
    pub fn new(bucket: Duration) -> Self {
        Self {
            bucket_ms: i64::try_from(bucket.as_millis()).unwrap_or(i64::MAX).max(1),
            spread: 1,
            counter: AtomicU32::new(0),
        }
    }

    /// The number of partitions per bucket; at least one.
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
        let index = bucket * i128::from(spread) + i128::from(step % spread);
        let index = index.rem_euclid(i128::from(partitions.divisor()));
        Choice::Partition(i32::try_from(index).unwrap_or_default())
    }
}
