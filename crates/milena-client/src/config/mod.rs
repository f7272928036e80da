//! Settings under Kafka's names, in two steps.
//!
//! Raw: [`ConfigMap`] has keys and texts as somebody gave them, in code, in a map, in a `.properties` or a TOML file, each
//! with where it came from. Resolved: [`ConsumerConfig`], [`ProducerConfig`] and [`AdminConfig`] have typed fields that
//! were checked.
//!
//! What is known about each key stands in tables, one for each [`ClientKind`]: `consumer_table.rs`,
//! `producer_table.rs` and `admin_table.rs`, `security_table.rs` for all, and for keys that only librdkafka has
//! `librdkafka_table.rs` and `producer_librdkafka_table.rs`. A key that means nothing here is refused with a reason
//! (`lookup.rs`, `names.rs`); nothing is accepted and then ignored. `docs/consumer-config.md`, `docs/producer-config.md`
//! and `docs/admin-config.md` are written from the tables.

mod admin;
mod admin_table;
mod builder;
mod checks;
mod client;
mod consumer;
mod consumer_table;
mod definition;
mod document;
mod duration;
mod error;
mod librdkafka_table;
mod lookup;
mod map;
mod names;
mod note;
mod origin;
mod partitioner;
mod producer;
mod producer_builder;
mod producer_checks;
mod producer_librdkafka_table;
mod producer_names;
mod producer_table;
mod producer_types;
mod properties;
mod resolve;
mod security_table;
mod time;
mod toml_text;
mod types;
mod value;

pub use admin::{AdminConfig, AdminConfigBuilder};
pub use builder::ConsumerConfigBuilder;
pub use client::ClientKind;
pub use consumer::ConsumerConfig;
pub use definition::{Alias, AliasUnit, Allowed, ConfigType, Definition, Deviation, Importance, Support};
pub use document::document;
pub use error::{ConfigError, ConfigErrors};
pub use map::ConfigMap;
pub use names::edit_distance;
pub use note::Note;
pub use origin::{Origin, Setting, Source};
pub use partitioner::{PartitionerParameters, RegionPartitions};
pub use producer::ProducerConfig;
pub use producer_builder::ProducerConfigBuilder;
pub use producer_types::{Acks, PartitionerName};
pub use time::{TimeError, parse_time};
pub use types::{
    AssignorName, AutoOffsetReset, DeserializerName, GroupProtocol, IsolationLevel, MetadataRecovery, Profile,
    RecordsIo, ServerAddress,
};
