//! Types of the producer's values.

use milena_config::{FromConfigValue as _, Validator, choices};

/// `acks`: the replicas that must have a record before it is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Acks {
    /// All in-sync replicas.
    #[default]
    All,
    /// The leader alone. Records that no follower has yet are lost with it.
    Leader,
    /// None. The broker sends no response, and lost records are not noticed.
    None,
}

choices! { Acks { All = "all" | "-1", None = "0", Leader = "1" } }

impl Acks {
    /// The code in a produce request.
    pub const fn code(self) -> i16 {
        match self {
            Self::All => -1,
            Self::Leader => 1,
            Self::None => 0,
        }
    }
}

impl From<Acks> for i16 {
    fn from(acks: Acks) -> Self {
        acks.code()
    }
}

/// `partitioner.class`: the partitioner of records that name no partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PartitionerName {
    /// Kafka's default: murmur2 of the key; without a key, one partition for each batch.
    #[default]
    BuiltIn,
    /// CRC-32 of the key. Records without a key, or with an empty one, share one partition.
    Consistent,
    /// CRC-32 of the key. Records without a key, or with an empty one, go to random partitions.
    ConsistentRandom,
    /// FNV-1a of the key. Records without a key share one partition.
    Fnv1a,
    /// FNV-1a of the key. Records without a key go to random partitions.
    Fnv1aRandom,
    /// murmur2 of the key. Records without a key share one partition.
    Murmur2,
    /// murmur2 of the key, as Kafka's default.
    Murmur2Random,
    /// A random partition, whatever the key.
    Random,
    /// One partition after the other, whatever the key.
    RoundRobin,
    /// A field of the record, such as a header: `milena.partitioner.field`.
    Entity,
    /// The tenant in keys of the form `tenant:entity`.
    Tenant,
    /// Reserved partitions for each region: `milena.partitioner.regions`.
    Region,
    /// Several fields of the record together: `milena.partitioner.fields`.
    Composite,
    /// The timestamp of the record: `milena.partitioner.bucket.ms`.
    TimeBucket,
    /// Kafka's default, but hot keys are spread: `milena.partitioner.hot.records.per.minute`.
    HotKeys,
}

choices! {
    PartitionerName (classes in "org.apache.kafka.clients.producer.") {
        Consistent = "consistent",
        ConsistentRandom = "consistent_random",
        Fnv1a = "fnv1a",
        Fnv1aRandom = "fnv1a_random",
        Murmur2 = "murmur2",
        Murmur2Random = "murmur2_random",
        Random = "random",
        RoundRobin = "round_robin" | "RoundRobinPartitioner",
        Entity = "entity",
        Tenant = "tenant",
        Region = "region",
        Composite = "composite",
        TimeBucket = "time_bucket",
        HotKeys = "hot_keys",
    }
    unlisted { BuiltIn = "built-in" }
}

/// `partitioner.class`.
pub(super) const PARTITIONER: Validator = Validator {
    accepts: |value| PartitionerName::from_config_value(value).is_some(),
    expected: || {
        format!(
            "one of {}, or Kafka's RoundRobinPartitioner; another partitioner is given in code",
            PartitionerName::NAMES.join(", ")
        )
    },
    summary: || PartitionerName::NAMES.join(", "),
};
