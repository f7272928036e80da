//! Partitioning by entity.

use super::{Choice, Field, PartitionInput, Partitioner, Partitions, murmur2};

/// Maps all records of one entity to one partition, independent of their keys: for example all orders of a customer. A
/// record without the field counts as a record without a key.
///
/// It is the partition of a key that equals the field.
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
