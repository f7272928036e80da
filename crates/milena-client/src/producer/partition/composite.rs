//! By several fields together.

use super::{Choice, Field, PartitionInput, Partitioner, Partitions, hash::murmur2_of};

/// Records that agree in all fields go to one partition. It is the one that Kafka chooses for a key in which the fields
/// are joined by the separator, so that other producers can do the same. A record that lacks a field is treated as if it
/// had no key.
#[derive(Debug, Clone)]
pub struct Composite {
    fields: Vec<Field>,
    separator: u8,
}

impl Composite {
    /// Joined by colons.
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
        let parts = self.fields.iter().enumerate().map(|(place, field)| {
            let separator = (place > 0).then_some(self.separator);
            (separator, field.of(record).unwrap_or_default())
        });
        let bytes = parts.flat_map(|(separator, part)| separator.into_iter().chain(part.iter().copied()));
        Choice::Partition(partitions.of_hash(murmur2_of(bytes)))
    }
}
