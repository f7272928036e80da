//! Configuration of the producer.

mod builder;
mod checks;
mod config;
mod librdkafka_table;
mod names;
mod partitioner;
mod table;
mod types;

pub use builder::ProducerConfigBuilder;
pub use config::ProducerConfig;
pub(super) use librdkafka_table::LIBRDKAFKA_PRODUCER_CONFIGS;
pub(super) use names::{OLD_NAMES, PREFIXES};
pub use partitioner::{PartitionerParameters, RegionPartitions};
pub(super) use table::PRODUCER_CONFIGS;
pub use types::{Acks, PartitionerName};
