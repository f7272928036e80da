//! Configuration of the clients, under Kafka's names.
//!
//! Raw: a [`ConfigMap`] has keys and texts from code, maps, `.properties` and TOML files, each with its origin. Resolved:
//! [`ConsumerConfig`], [`ProducerConfig`] and [`AdminConfig`] have typed fields that were checked.
//!
//! The framework is `milena-config`. Each client has a folder here: `table.rs` defines its keys, `config.rs` has the typed
//! fields, `builder.rs` the methods for code, `checks.rs` the rules between keys. Keys of all clients are in
//! `common_table.rs`, `librdkafka_table.rs` and `security/`; `client.rs` puts the tables together. A key that has no
//! effect is refused with a reason; nothing is accepted and then ignored. `docs/consumer-config.md`,
//! `docs/producer-config.md` and `docs/admin-config.md` are generated from the tables.

mod admin;
mod checks;
mod client;
mod client_config;
mod common_table;
mod consumer;
mod document;
mod file;
mod librdkafka_table;
mod producer;
mod references;
mod security;
mod types;

pub use admin::{AdminConfig, AdminConfigBuilder};
pub use client::ClientKind;
pub use consumer::{
    AssignorName, AutoOffsetReset, ConsumerConfig, ConsumerConfigBuilder, DeserializerName, GroupProtocol,
    IsolationLevel, Profile,
};
pub use document::document;
pub use file::read_file;
pub use milena_config::{
    Alias, Allowed, ConfigError, ConfigErrors, ConfigMap, ConfigType, Definition, Deviation, Importance, Note, Origin,
    SecurityProtocol, Setting, Source, Support, TimeError, Unit, edit_distance, nearest, parse_time,
};
pub use producer::{
    Acks, PartitionerName, PartitionerParameters, ProducerConfig, ProducerConfigBuilder, RegionPartitions,
};
pub(crate) use security::{OAuthConfig, SaslConfig};
pub use security::{ReloadError, SecurityConfig, set_token_provider};
pub use types::{MetadataRecovery, RecordsIo, ServerAddress};
