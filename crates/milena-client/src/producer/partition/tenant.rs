//! Partitioning by tenant.

use super::{Choice, Field, PartitionInput, Partitioner, Partitions, murmur2};

/// Partitions keys of the form `tenant:entity` by tenant. Each tenant has one partition, or several adjacent ones with
/// [`spread`](Self::spread), where the whole key chooses among them and each entity stays in one. A noisy tenant
/// affects only those that share its partitions.
///
/// A key without a separator is a tenant. A record without a key is sticky.
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

    /// The number of partitions per tenant; at least one.
    #[must_use]
    pub fn spread(mut self, partitions: u32) -> Self {
        self.spread = partitions.max(1);
        self
    }
}

impl Partitioner for ByTenant {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let separator = self.separator;
        let tenant = Field::KeyPart { separator, index: 0 }.of(record);
        let (Some(tenant), Some(key)) = (tenant, record.key) else {
            return Choice::Sticky;
        };
        let first = murmur2(tenant) & 0x7fff_ffff;
        let spread = self.spread.min(partitions.divisor());
        let step = (murmur2(key) & 0x7fff_ffff) % spread;
        Choice::Partition(partitions.at(first % partitions.divisor() + step))
    }
}
