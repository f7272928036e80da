//! Partitioners: the choice of the partition for records that name none.
//!
//! | partitioner | partition is chosen by |
//! |---|---|
//! | [`BuiltIn`] | Kafka's default: murmur2 of the key; without a key one partition per batch ([`Sticky`]) |
//! | [`Librdkafka`] | librdkafka's family: CRC-32, FNV-1a or murmur2 of the key, or random |
//! | [`RoundRobin`] | round robin |
//! | [`ByEntity`] | a field of the record, such as a header |
//! | [`ByTenant`] | the tenant in keys like `tenant:entity` |
//! | [`ByRegion`] | region, each with its own partitions |
//! | [`Composite`] | several fields |
//! | [`TimeBucket`] | time, such as the hour |
//! | [`HotKeys`] | another partitioner, with hot keys spread |
//! | [`Own`] | a closure |
//!
//! None of them allocates per record.

mod built_in;
mod composite;
mod entity;
mod field;
mod hash;
mod hot_keys;
mod librdkafka;
mod nodes;
mod own;
mod region;
mod round_robin;
mod sketch;
pub mod skew;
mod sticky;
mod tenant;
mod time_bucket;
mod variety;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use milena_wire::records::Header;

pub use built_in::BuiltIn;
pub use composite::Composite;
pub use entity::ByEntity;
pub use field::Field;
pub use hash::{fnv1a, murmur2};
pub use hot_keys::{HotKeys, HotKeysConfig};
pub use librdkafka::Librdkafka;
pub use nodes::NodeAvailability;
pub use own::Own;
pub use region::ByRegion;
pub use round_robin::RoundRobin;
pub use sticky::Sticky;
pub use tenant::ByTenant;
pub use time_bucket::TimeBucket;
pub(super) use variety::TopicKeys;
pub use variety::{FewKeys, KeyVariety};

use crate::config::{PartitionerName, PartitionerParameters, ProducerConfig};

/// Chooses the partition of a record that names none.
///
/// It is called for every record, from several threads at once, and should be quick. Where order matters the choice
/// must depend on the record only: order is kept within a partition.
pub trait Partitioner: Send + Sync + fmt::Debug {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice;

    /// Whether the key alone determines the partition. The producer then warns about topics with fewer keys than
    /// partitions.
    fn goes_by_key(&self) -> bool {
        false
    }

    /// Values for the metrics.
    fn numbers(&self) -> PartitionerNumbers {
        PartitionerNumbers::default()
    }
}

/// A record without a partition, as passed to a partitioner.
#[derive(Debug, Clone, Copy)]
pub struct PartitionInput<'a> {
    pub topic: &'a str,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header<'a>],
    /// The timestamp of the record, or the time of sending.
    pub timestamp_ms: i64,
}

/// The known partitions of a topic.
#[derive(Debug, Clone, Copy)]
pub struct Partitions<'a> {
    /// The number of partitions, at least 1.
    pub count: i32,
    /// The partitions with a leader, in ascending order.
    pub available: &'a [i32],
    /// The queue lengths of candidates for records without a key; empty if they do not matter.
    pub loads: &'a [Load],
}

/// The queue length of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub partition: i32,
    /// Batches that were not sent yet.
    pub queued: u32,
}

/// The choice of a partitioner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// This partition. Sending fails if it does not exist.
    Partition(i32),
    /// The partition of the records before it, until it has a full batch: see [`Sticky`].
    Sticky,
}

/// Values of a partitioner for the metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionerNumbers {
    /// Keys that are spread now, so that their records have no order.
    pub hot_keys: u64,
    /// The number of times that a key became hot.
    pub hot_keys_total: u64,
    /// Records sent to another partition than that of their key.
    pub records_spread_total: u64,
}

impl Partitions<'_> {
    /// The number of partitions as a divisor.
    fn divisor(&self) -> u32 {
        u32::try_from(self.count).unwrap_or(1).max(1)
    }

    /// Kafka's partition of a hash, without its highest bit.
    fn of_hash(&self, hash: u32) -> i32 {
        self.at(hash & 0x7fff_ffff)
    }

    /// The partition at this index, modulo the number of partitions.
    fn at(&self, index: u32) -> i32 {
        i32::try_from(index % self.divisor()).unwrap_or(0)
    }
}

/// The configured partitioner.
pub fn configured(config: &ProducerConfig) -> Arc<dyn Partitioner> {
    let seed = hash::of_bytes(config.client_id.as_bytes());
    let parameters = &config.partitioner_parameters;
    match config.partitioner {
        PartitionerName::BuiltIn => Arc::new(BuiltIn {
            ignore_keys: config.partitioner_ignore_keys,
        }),
        PartitionerName::Consistent => Arc::new(Librdkafka::Consistent),
        PartitionerName::ConsistentRandom => Arc::new(Librdkafka::ConsistentRandom),
        PartitionerName::Fnv1a => Arc::new(Librdkafka::Fnv1a),
        PartitionerName::Fnv1aRandom => Arc::new(Librdkafka::Fnv1aRandom),
        PartitionerName::Murmur2 => Arc::new(Librdkafka::Murmur2),
        PartitionerName::Murmur2Random => Arc::new(Librdkafka::Murmur2Random),
        PartitionerName::Random => Arc::new(Librdkafka::random(seed)),
        PartitionerName::RoundRobin => Arc::new(RoundRobin::new()),
        PartitionerName::Entity => Arc::new(ByEntity::new(parameters.field.clone().unwrap_or(Field::Key))),
        PartitionerName::Tenant => Arc::new(
            ByTenant::new()
                .separator(parameters.separator)
                .spread(parameters.spread.unwrap_or(1)),
        ),
        PartitionerName::Region => Arc::new(by_region(parameters)),
        PartitionerName::Composite => {
            Arc::new(Composite::new(parameters.fields.clone()).separator(parameters.separator))
        }
        PartitionerName::TimeBucket => {
            let bucket = Duration::from_millis(u64::try_from(parameters.bucket_ms).unwrap_or(1));
            Arc::new(TimeBucket::new(bucket).spread(parameters.spread.unwrap_or(1)))
        }
        PartitionerName::HotKeys => Arc::new(hot_keys(parameters)),
    }
}

fn by_region(parameters: &PartitionerParameters) -> ByRegion {
    let mut regions: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for run in &parameters.regions {
        regions.entry(&run.region).or_default().extend(run.first..=run.last);
    }
    let by_region = ByRegion::new(regions);
    match &parameters.field {
        Some(field) => by_region.field(field.clone()),
        None => by_region,
    }
}

fn hot_keys(parameters: &PartitionerParameters) -> HotKeys {
    let defaults = HotKeysConfig::default();
    let config = HotKeysConfig {
        records_per_minute: u64::try_from(parameters.hot_records_per_minute).unwrap_or(defaults.records_per_minute),
        spread: parameters.spread.unwrap_or(defaults.spread),
        ..defaults
    };
    HotKeys::new(BuiltIn::default(), config)
}
