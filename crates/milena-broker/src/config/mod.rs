//! Configuration of topics, the broker, groups and client metrics subscriptions, under Kafka's names.
//!
//! Raw: texts as they were given ([`TopicOverrides`], [`BrokerOverrides`]). Resolved: typed fields that the log and the
//! broker use ([`TopicConfig`], [`BrokerConfig`]). The framework is `milena-config`. Each kind has a folder: `table.rs`
//! defines its keys, `config.rs` has the typed fields; `schema.rs` puts the tables together. A key of Kafka that has no
//! effect here is refused with a reason; nothing is accepted and then ignored.
//!
//! The value of a topic or group comes from its own settings, else from the broker's key of the same meaning, else from
//! Kafka's default. The value of a broker comes from the settings made at run time, for this broker or for all, else from
//! those it was started with, else from the default.
//!
//! [`describe_topic`], [`describe_broker`] and [`describe_group`] serve DescribeConfigs; [`alter_topic`],
//! [`alter_broker`] and [`alter_group`] serve AlterConfigs.

mod alter;
mod broker;
mod client_metrics;
mod describe;
mod error;
mod features;
mod group;
mod layers;
mod schema;
mod topic;

pub use alter::{AlterOp, AlterOpKind, BrokerLayer, alter_broker, alter_client_metrics, alter_group, alter_topic};
pub use broker::{
    BrokerConfig, BrokerOverrides, CleanerConfig, LimitsConfig, Listener, ListenerLimits, QuotaConfig, RawConfig,
};
pub(crate) use broker::{
    JwksOptions, JwksSource, ListenerSecurity, SaslOptions, TokenOptions, TokenRules, UnsecuredRules,
};
pub use client_metrics::MetricsSubscription;
pub(crate) use client_metrics::{INTERVAL_MS_DEFAULT, compile};
pub use describe::{
    ConfigSource, DescribedConfig, DescribedSynonym, describe_broker, describe_broker_defaults,
    describe_client_metrics, describe_group, describe_topic,
};
pub use error::{ConfigError, Fault};
pub use features::{FEATURES, Feature, FeatureDirection, FeatureUpdate, FinalizedFeatures};
pub(crate) use group::misfits;
pub use milena_config::{
    Alias, Allowed, ConfigError as SettingError, ConfigErrors, ConfigMap, ConfigType, ConfigValue, Definition,
    FromConfigValue, Origin, SecurityProtocol, Support, Unit, UpdateMode, ValueError,
};
pub use schema::{Scope, broker_definitions, client_metrics_definitions, group_definitions, topic_definitions};
pub use topic::{CleanupPolicy, CompressionType, Durability, TimestampType, TopicConfig, TopicOverrides};
