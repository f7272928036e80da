//! Which partition a record goes to that names none.
//!
//! | who | what decides |
//! |---|---|
//! | [`BuiltIn`] | Kafka's own: murmur2 of the key; without a key one partition until it has got a batch ([`Sticky`]) |
//! | [`Librdkafka`] | librdkafka's family: CRC-32, FNV-1a or murmur2 of the key, or chance |
//! | [`RoundRobin`] | one after the other |
//! | [`ByEntity`] | a field of the record, such as a header |
//! | [`ByTenant`] | the tenant in keys like `tenant:entity` |
//! | [`ByRegion`] | partitions that are set apart for each region |
//! | [`Composite`] | several fields together |
//! | [`TimeBucket`] | the hour, or another stretch of time |
//! | [`HotKeys`] | another partitioner, but keys that are too many are spread |
//! | [`Own`] | a closure |
//!
//! None of them allocates for a record.

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
/// It is asked for every record, by several threads at once, and should be quick. What it chooses should follow from the
/// record wherever order matters: records of one partition stay in order, others do not.
pub trait Partitioner: Send + Sync + fmt::Debug {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice;

    /// Whether keys alone decide, where there are any. Then the producer warns of topics that have fewer keys than
    /// partitions.
    fn goes_by_key(&self) -> bool {
        false
    }

    /// What it has to tell for the metrics.
    fn numbers(&self) -> PartitionerNumbers {
        PartitionerNumbers::default()
    }
}

/// A record that has no partition yet.
#[derive(Debug, Clone, Copy)]
pub struct PartitionInput<'a> {
    pub topic: &'a str,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header<'a>],
    /// That of the record; the time of sending if it was given none.
    pub timestamp_ms: i64,
}

/// The partitions of a topic, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct Partitions<'a> {
    /// How many there are, at least 1: they are 0 up to this.
    pub count: i32,
    /// Those that have a leader, in ascending order.
    pub available: &'a [i32],
    /// How much waits for each of those that may get records without a key; empty if that does not matter.
    pub loads: &'a [Load],
}

/// What waits to be sent to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    pub partition: i32,
    /// Batches that are not yet sent.
    pub queued: u32,
}

/// Where a record goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// There. Sending fails if there is no such partition.
    Partition(i32),
    /// Where the records before it went, until that partition has got a batch: see [`Sticky`].
    Sticky,
}

/// What a partitioner tells of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartitionerNumbers {
    /// Keys that are spread at the moment, so that their records are in no order.
    pub hot_keys: u64,
    /// How often a key became one of them.
    pub hot_keys_total: u64,
    /// Records that did not go where their key would have them.
    pub records_spread_total: u64,
}

impl Partitions<'_> {
    /// The number of partitions as a divisor.
    fn divisor(&self) -> u32 {
        u32::try_from(self.count).unwrap_or(1).max(1)
    }

    /// Kafka's choice for a hash: its highest bit does not count.
    fn of_hash(&self, hash: u32) -> i32 {
        self.at(hash & 0x7fff_ffff)
    }

    /// The partition at this place, counted round and round.
    fn at(&self, place: u32) -> i32 {
        i32::try_from(place % self.divisor()).unwrap_or(0)
    }
}

/// The partitioner that a configuration names.
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
