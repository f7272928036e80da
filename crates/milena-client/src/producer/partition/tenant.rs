//! By tenant.

use super::{Choice, Field, PartitionInput, Partitioner, Partitions, murmur2};

/// Keys are `tenant:entity`, and the tenant decides. Each tenant has one partition, or so many next to each other if it
/// is [spread](Self::spread): then the whole key decides between these, and each entity still stays in one. A tenant that
/// floods its partitions harms those that share them, and no others.
///
/// A key without a colon is all tenant. A record without a key goes anywhere.
#[derive(Debug, Clone)]
pub struct ByTenant {
    separator: u8,
    spread: u32,
}

impl Default for ByTenant {
    fn default() -> Self {
        Self {
            separator: b':',
            spread: 1,
        }
    }
}

impl ByTenant {
    pub fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn separator(mut self, separator: u8) -> Self {
        self.separator = separator;
        self
    }

    /// How many partitions a tenant has; at least one.
    #[must_use]
    pub fn spread(mut self, partitions: u32) -> Self {
        self.spread = partitions.max(1);
        self
    }
}

impl Partitioner for ByTenant {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let separator = self.separator;
        let tenant = Field::KeyPart { separator, place: 0 }.of(record);
        let (Some(tenant), Some(key)) = (tenant, record.key) else {
            return Choice::Sticky;
        };
        let first = murmur2(tenant) & 0x7fff_ffff;
        let spread = self.spread.min(partitions.divisor());
        let step = (murmur2(key) & 0x7fff_ffff) % spread;
        Choice::Partition(partitions.at(first % partitions.divisor() + step))
    }
}
