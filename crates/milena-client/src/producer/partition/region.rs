//! Partitioning by region.

use std::sync::atomic::{AtomicU32, Ordering};

use bytestring::ByteString;

use super::{Choice, Field, PartitionInput, Partitioner, Partitions, murmur2};

/// Gives each region its own partitions. A reader needs only those of its region, and regions do not slow each other
/// down. Within a region the key determines the partition; records without a key are distributed round robin.
///
/// The region is in the header `region`, or in another [field](Self::field). Records without a known region go to the
/// partitions that belong to no region, or to all if there are none.
#[derive(Debug)]
pub struct ByRegion {
    field: Field,
    regions: Vec<(ByteString, Vec<i32>)>,
    counter: AtomicU32,
}

impl ByRegion {
    /// Regions with their partitions, such as `[("eu", 0..4), ("us", 4..12)]`.
    pub fn new<N, P>(regions: impl IntoIterator<Item = (N, P)>) -> Self
    where
        N: Into<ByteString>,
        P: IntoIterator<Item = i32>,
    {
        let regions = regions.into_iter();
        Self {
            field: Field::header("region"),
            regions: regions
                .map(|(name, own)| (name.into(), own.into_iter().collect()))
                .collect(),
            counter: AtomicU32::new(0),
        }
    }

    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        self.field = field;
        self
    }

    /// The index of the record's partition in a list of `len` partitions.
    fn index(&self, record: &PartitionInput<'_>, len: usize) -> usize {
        let number = match record.key {
            Some(key) => murmur2(key) & 0x7fff_ffff,
            None => self.counter.fetch_add(1, Ordering::Relaxed),
        };
        usize::try_from(number).unwrap_or_default() % len.max(1)
    }

    fn is_owned(&self, partition: i32) -> bool {
        self.regions.iter().any(|(_, own)| own.contains(&partition))
    }
}

impl Partitioner for ByRegion {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let region = self.field.of(record);
        let own = self
            .regions
            .iter()
            .find(|(name, _)| region == Some(name.as_bytes().as_ref()));
        if let Some((_, own)) = own {
            // The topic may have fewer partitions than the regions name.
            let there = || {
                own.iter()
                    .filter(|partition| (0..partitions.count).contains(*partition))
            };
            let len = there().count();
            if len > 0 {
                let chosen = there().nth(self.index(record, len));
                return chosen.map_or(Choice::Sticky, |partition| Choice::Partition(*partition));
            }
        }
        let free = || (0..partitions.count).filter(|partition| !self.is_owned(*partition));
        let chosen = match free().count() {
            0 => (0..partitions.count).nth(self.index(record, partitions.divisor() as usize)),
            len => free().nth(self.index(record, len)),
        };
        chosen.map_or(Choice::Sticky, Choice::Partition)
    }
}
