//! The partitioners of librdkafka.

use std::sync::atomic::{AtomicU64, Ordering};

use milena_machines::Random;

use super::{Choice, PartitionInput, Partitioner, Partitions, fnv1a, murmur2};

/// librdkafka's partitioners, by its names. Where it chooses at random for records without a key, this one is sticky,
/// as Kafka's.
#[derive(Debug)]
pub enum Librdkafka {
    /// CRC-32 of the key; records without a key, and with an empty one, all go to one partition.
    Consistent,
    /// CRC-32 of the key; an empty key counts as none. This is librdkafka's default.
    ConsistentRandom,
    /// FNV-1a of the key, as Sarama; records without a key all go to one partition.
    Fnv1a,
    /// FNV-1a of the key, as Sarama.
    Fnv1aRandom,
    /// murmur2 of the key, as Java; records without a key all go to one partition.
    Murmur2,
    /// murmur2 of the key, as Java.
    Murmur2Random,
    /// Any partition with a leader, independent of the key. The number is the state of the generator.
    Random(AtomicU64),
}

impl Librdkafka {
    /// A random partition, from this seed.
    pub fn random(seed: u64) -> Self {
        Self::Random(AtomicU64::new(seed))
    }
}

impl Partitioner for Librdkafka {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        let key = match (self, record.key) {
            // A missing key counts as an empty one.
            (Self::Consistent | Self::Fnv1a | Self::Murmur2, key) => key.unwrap_or_default(),
            (Self::ConsistentRandom, Some([])) | (_, None) => return Choice::Sticky,
            (_, Some(key)) => key,
        };
        Choice::Partition(match self {
            Self::Consistent | Self::ConsistentRandom => partitions.at(crc32fast::hash(key)),
            Self::Fnv1a | Self::Fnv1aRandom => partitions.at(fnv1a(key)),
            Self::Murmur2 | Self::Murmur2Random => partitions.of_hash(murmur2(key)),
            Self::Random(counter) => {
                let mut random = Random::new(counter.fetch_add(1, Ordering::Relaxed));
                any(partitions, random.next_u64())
            }
        })
    }

    fn goes_by_key(&self) -> bool {
        !matches!(self, Self::Random(_))
    }
}

fn any(partitions: &Partitions<'_>, random: u64) -> i32 {
    let available = partitions.available;
    let index = usize::try_from(random >> 1).unwrap_or_default();
    let chosen = index
        .checked_rem(available.len())
        .and_then(|index| available.get(index));
    chosen.copied().unwrap_or_else(|| partitions.at(random as u32))
}
