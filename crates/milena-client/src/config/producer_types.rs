//! The values of the producer's keys that are more than a number or a text.

use std::fmt;

/// `acks`: whose word a record is taken for written on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acks {
    /// That of all replicas that are in sync.
    #[default]
    All,
    /// That of the leader alone: what only it has is lost with it.
    Leader,
    /// Nobody's. The broker does not answer, and nobody learns of a loss.
    None,
}

impl From<Acks> for i16 {
    /// As it stands in a request.
    fn from(acks: Acks) -> Self {
        match acks {
            Acks::All => -1,
            Acks::Leader => 1,
            Acks::None => 0,
        }
    }
}

/// `partitioner.class`: who chooses the partition of a record that names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartitionerName {
    /// Kafka's own: murmur2 of the key; without a key one partition until a batch is full.
    #[default]
    BuiltIn,
    /// CRC-32 of the key. Records without a key, or with an empty one, all go to one partition.
    Consistent,
    /// CRC-32 of the key; an empty key counts as none.
    ConsistentRandom,
    /// FNV-1a of the key. Records without a key all go to one partition.
    Fnv1a,
    /// FNV-1a of the key.
    Fnv1aRandom,
    /// murmur2 of the key. Records without a key all go to one partition.
    Murmur2,
    /// murmur2 of the key, as Kafka's own.
    Murmur2Random,
    /// Any partition, whatever the key.
    Random,
    /// One partition after the other, whatever the key.
    RoundRobin,
    /// A part of the record, such as a header: `milena.partitioner.field`.
    Entity,
    /// The tenant in keys like `tenant:entity`.
    Tenant,
    /// Partitions that are set apart for each region: `milena.partitioner.regions`.
    Region,
    /// Several parts of the record together: `milena.partitioner.fields`.
    Composite,
    /// The record's time: `milena.partitioner.bucket.ms`.
    TimeBucket,
    /// Kafka's own, but keys with too many records are spread: `milena.partitioner.hot.records.per.minute`.
    HotKeys,
}

impl Acks {
    /// The number that stands for it in a request.
    pub const fn code(self) -> i16 {
        match self {
            Self::All => -1,
            Self::Leader => 1,
            Self::None => 0,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "all" | "-1" => Some(Self::All),
            "1" => Some(Self::Leader),
            "0" => Some(Self::None),
            _ => None,
        }
    }
}

impl PartitionerName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        // What Java prints of a class begins so.
        let text = text.strip_prefix("class ").unwrap_or(text);
        match text.strip_prefix("org.apache.kafka.clients.producer.").unwrap_or(text) {
            "consistent" => Some(Self::Consistent),
            "consistent_random" => Some(Self::ConsistentRandom),
            "fnv1a" => Some(Self::Fnv1a),
            "fnv1a_random" => Some(Self::Fnv1aRandom),
            "murmur2" => Some(Self::Murmur2),
            "murmur2_random" => Some(Self::Murmur2Random),
            "random" => Some(Self::Random),
            "round_robin" | "RoundRobinPartitioner" => Some(Self::RoundRobin),
            "entity" => Some(Self::Entity),
            "tenant" => Some(Self::Tenant),
            "region" => Some(Self::Region),
            "composite" => Some(Self::Composite),
            "time_bucket" => Some(Self::TimeBucket),
            "hot_keys" => Some(Self::HotKeys),
            _ => None,
        }
    }
}

impl fmt::Display for Acks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Leader => "1",
            Self::None => "0",
        })
    }
}

/// The name that `partitioner.class` takes; the built-in one has none.
impl fmt::Display for PartitionerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltIn => "built-in",
            Self::Consistent => "consistent",
            Self::ConsistentRandom => "consistent_random",
            Self::Fnv1a => "fnv1a",
            Self::Fnv1aRandom => "fnv1a_random",
            Self::Murmur2 => "murmur2",
            Self::Murmur2Random => "murmur2_random",
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::Entity => "entity",
            Self::Tenant => "tenant",
            Self::Region => "region",
            Self::Composite => "composite",
            Self::TimeBucket => "time_bucket",
            Self::HotKeys => "hot_keys",
        })
    }
}
