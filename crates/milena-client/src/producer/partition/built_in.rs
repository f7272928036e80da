//! Kafka's default partitioner.

use super::{Choice, PartitionInput, Partitioner, Partitions, murmur2};

/// Kafka's default: murmur2 of the key, as in Java. Records without a key stay with one partition until it has a full
/// batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct BuiltIn {
    /// `partitioner.ignore.keys`: treats all records as if they had no key.
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
