//! Kafka's own.

use super::{Choice, PartitionInput, Partitioner, Partitions, murmur2};

/// Kafka's default: murmur2 of the key, as in Java. A record without a key stays with one partition until that has got a
/// batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltIn {
    /// `partitioner.ignore.keys`: all records are treated as if they had none.
    pub ignore_keys: bool,
}

impl Partitioner for BuiltIn {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        match record.key {
            Some(key) if !self.ignore_keys => Choice::Partition(partitions.of_hash(murmur2(key))),
            _ => Choice::Sticky,
        }
    }

    fn goes_by_key(&self) -> bool {
        !self.ignore_keys
    }
}
