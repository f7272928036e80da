//! The configuration of topics, of the broker and of single groups, under Kafka's names.
//!
//! Two steps: raw text as somebody gave it ([`TopicOverrides`], [`BrokerOverrides`]), then typed fields that the log
//! and the broker use ([`TopicConfig`], [`BrokerConfig`]). What is known about each key stands in four
//! tables, `topic_table.rs`, `broker_table.rs`, `group_table.rs` and `client_metrics_table.rs`: type, default, what is allowed, and whether this
//! broker can honour it. Keys of Kafka that mean nothing here are refused with a reason (`unsupported.rs`); nothing is
//! accepted and then ignored.
//!
//! A topic's or a group's value comes from itself, else from the broker's key of the same meaning, else from Kafka's
//! default. A broker's value comes from what was set at run time, for this broker or for all, else from what it was
//! started with, else from the default.
//!
//! Raw settings come from [`parse_properties`], [`parse_toml`], [`parse_arguments`] or any map. [`describe_topic`],
//! [`describe_broker`] and [`describe_group`] answer DescribeConfigs; [`alter_topic`], [`alter_broker`] and
//! [`alter_group`] do what AlterConfigs asks.

mod alter;
mod broker;
mod broker_checks;
mod broker_table;
mod client_metrics;
mod client_metrics_table;
mod definition;
mod describe;
mod error;
mod features;
mod group_table;
mod groups;
mod layers;
mod listener;
mod lookup;
mod names;
mod properties;
mod sources;
mod topic;
mod topic_table;
mod transactions;
mod unsupported;
mod value;

pub use alter::{AlterOp, AlterOpKind, BrokerLayer, alter_broker, alter_client_metrics, alter_group, alter_topic};
pub use broker::{BrokerConfig, BrokerOverrides, CleanerConfig, RawConfig};
pub use client_metrics::MetricsSubscription;
pub(crate) use client_metrics::{INTERVAL_MS_DEFAULT, compile};
pub use definition::{Allowed, BrokerSynonym, ConfigType, Definition, Support, Unit, UpdateMode};
pub use describe::{
    ConfigSource, DescribedConfig, DescribedSynonym, describe_broker, describe_broker_defaults,
    describe_client_metrics, describe_group, describe_topic,
};
pub use error::{ConfigError, Fault, Scope};
pub use features::{FEATURES, Feature, FeatureDirection, FeatureUpdate, FinalizedFeatures};
pub(crate) use groups::misfits;
pub use listener::{Listener, SecurityProtocol};
pub use lookup::{broker_definitions, client_metrics_definitions, group_definitions, topic_definitions};
pub use properties::parse_properties;
pub use sources::{parse_arguments, parse_toml};
pub use topic::{CleanupPolicy, CompressionType, Durability, TimestampType, TopicConfig, TopicOverrides};
pub use value::{ConfigValue, FromConfigValue};
