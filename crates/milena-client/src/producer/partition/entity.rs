//! By what a record is about.

use super::{Choice, Field, PartitionInput, Partitioner, Partitions, murmur2};

/// All records of one entity go to one partition, whatever their keys: a customer's orders, say, that have numbers of
/// their own for keys. A record without the field is treated as if it had no key.
///
/// The partition is the one that Kafka chooses for a key that is the field.
#[derive(Debug, Clone)]
pub struct ByEntity {
    field: Field,
}

impl ByEntity {
    pub fn new(field: Field) -> Self {
        Self { field }
    }
}

impl Partitioner for ByEntity {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        match self.field.of(record) {
            Some(entity) => Choice::Partition(partitions.of_hash(murmur2(entity))),
            None => Choice::Sticky,
        }
    }
}
