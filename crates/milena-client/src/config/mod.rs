//! Settings under Kafka's names, in two steps.
//!
//! Raw: [`ConfigMap`] has keys and texts as somebody gave them, in code, in a map, in a `.properties` or a TOML file, each
//! with where it came from. Resolved: [`ConsumerConfig`] has typed fields that were checked.
//!
//! What is known about each key stands in three tables: `consumer_table.rs`, `security_table.rs` and, for keys that only
//! librdkafka has, `librdkafka_table.rs`. A key that means nothing here is refused with a reason (`lookup.rs`,
//! `names.rs`); nothing is accepted and then ignored. `docs/consumer-config.md` is written from the tables.

mod builder;
mod checks;
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
mod properties;
mod resolve;
mod security_table;
mod toml_text;
mod types;
mod value;

pub use builder::ConsumerConfigBuilder;
pub use consumer::ConsumerConfig;
pub use definition::{Alias, AliasUnit, Allowed, ConfigType, Definition, Deviation, Importance, Support};
pub use document::document;
pub use error::{ConfigError, ConfigErrors};
pub use lookup::{consumer_definitions, librdkafka_definitions};
pub use map::ConfigMap;
pub use note::Note;
pub use origin::{Origin, Setting, Source};
pub use types::{
    AssignorName, AutoOffsetReset, DeserializerName, GroupProtocol, IsolationLevel, MetadataRecovery, Profile,
    ServerAddress,
};
