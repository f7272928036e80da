//! Round robin partitioning.

use std::{
    collections::BTreeMap,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{Choice, PartitionInput, Partitioner, Partitions};

/// Kafka's `RoundRobinPartitioner`: the partitions with a leader in turn, per topic, independent of the key.
#[derive(Debug, Default)]
pub struct RoundRobin {
    /// The number of records of each topic. One counter for all topics would skip partitions of topics that are written
    /// alternately.
    counters: RwLock<BTreeMap<Box<str>, AtomicU32>>,
}

impl RoundRobin {
    pub fn new() -> Self {
        Self::default()
    }

    fn counter(&self, topic: &str) -> u32 {
        let counters = self.counters.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = counters.get(topic) {
            return counter.fetch_add(1, Ordering::Relaxed);
        }
        drop(counters);
        let mut counters = self.counters.write().unwrap_or_else(PoisonError::into_inner);
        counters
            .entry(topic.into())
            .or_default()
            .fetch_add(1, Ordering::Relaxed)
    }
}

impl Partitioner for RoundRobin {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let counter = self.counter(record.topic) & 0x7fff_ffff;
        let available = partitions.available;
        let index = usize::try_from(counter).unwrap_or_default();
        let chosen = index
            .checked_rem(available.len())
            .and_then(|index| available.get(index));
        Choice::Partition(chosen.copied().unwrap_or_else(|| partitions.at(counter)))
    }
}
