//! Configuration of the consumer.

mod builder;
mod checks;
mod config;
mod librdkafka_table;
mod names;
mod table;
mod types;

pub use builder::ConsumerConfigBuilder;
pub use config::ConsumerConfig;
pub(super) use librdkafka_table::LIBRDKAFKA_CONSUMER_CONFIGS;
pub(super) use names::{OLD_NAMES, PREFIXES};
pub(super) use table::CONSUMER_CONFIGS;
pub use types::{AssignorName, AutoOffsetReset, DeserializerName, GroupProtocol, IsolationLevel, Profile};
