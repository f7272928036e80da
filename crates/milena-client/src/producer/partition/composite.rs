//! Partitioning by several fields.

use super::{Choice, Field, PartitionInput, Partitioner, Partitions, hash::murmur2_of};

/// Maps records with equal fields to one partition. It is the partition of a key that joins the fields with the
/// separator, so that other producers can compute it. A record that lacks a field counts as a record without a key.
#[derive(Debug, Clone)]
pub struct Composite {
    fields: Vec<Field>,
    separator: u8,
}

impl Composite {
    /// With a colon as separator.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Self {
        Self {
            fields: fields.into_iter().collect(),
            separator: b':',
        }
    }

    #[must_use]
    pub fn separator(mut self, separator: u8) -> Self {
        self.separator = separator;
        self
    }
}

impl Partitioner for Composite {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let is_whole = self.fields.iter().all(|field| field.of(record).is_some());
        if self.fields.is_empty() || !is_whole {
            return Choice::Sticky;
        }
        let parts = self.fields.iter().enumerate().map(|(index, field)| {
            let separator = (index > 0).then_some(self.separator);
            (separator, field.of(record).unwrap_or_default())
        });
        let bytes = parts.flat_map(|(separator, part)| separator.into_iter().chain(part.iter().copied()));
        Choice::Partition(partitions.of_hash(murmur2_of(bytes)))
    }
}
