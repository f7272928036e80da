//! The configuration of one topic.

use super::{
    BrokerConfig, BrokerOverrides, ConfigError, ConfigValue, FromConfigValue, RawConfig, Scope, layers::Layers,
    lookup::definition_of,
};

/// What was set on a topic, as it was given. Only [`TopicConfig::resolve`] makes sense of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicOverrides(pub RawConfig);

/// What holds for a topic, from its own settings, the broker's, and the defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    pub cleanup_policy: CleanupPolicy,
    pub compression_type: CompressionType,
    /// -1 for the library's own choice.
    pub compression_gzip_level: i32,
    pub compression_lz4_level: i32,
    pub compression_zstd_level: i32,
    pub delete_retention_ms: i64,
    pub durability: Durability,
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub index_interval_bytes: i32,
    pub max_compaction_lag_ms: i64,
    pub max_message_bytes: i32,
    pub message_timestamp_after_max_ms: i64,
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_type: TimestampType,
    pub min_cleanable_dirty_ratio: f64,
    pub min_compaction_lag_ms: i64,
    pub min_insync_replicas: i32,
    /// Negative for without end.
    pub retention_bytes: i64,
    /// -1 for without end.
    pub retention_ms: i64,
    pub segment_bytes: i32,
    pub segment_index_bytes: i32,
    pub segment_jitter_ms: i64,
    pub segment_ms: i64,
    pub unclean_leader_election_enable: bool,
}

/// What happens to old records. Neither is possible too: then they stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    pub delete: bool,
    pub compact: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    Uncompressed,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
    /// As the producer sent it.
    Producer,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// Where a record is when its producer hears that it was stored, and so what it survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// In this process. Nothing is written to files.
    Memory,
    /// With the operating system: survives the end of the process, not of the machine.
    Os,
    /// On disk.
    Fsync,
}

impl TopicConfig {
    /// Checks every override, and the whole.
    pub fn resolve(overrides: &TopicOverrides, broker: &BrokerConfig) -> Result<Self, ConfigError> {
        Self::resolve_with(overrides, &broker.overrides)
    }

    pub(super) fn resolve_with(overrides: &TopicOverrides, broker: &BrokerOverrides) -> Result<Self, ConfigError> {
        for (name, text) in &overrides.0 {
            ConfigValue::parse(definition_of(Scope::Topic, name)?, text)?;
        }
        let settings = Layers {
            scope: Scope::Topic,
            own: &overrides.0,
            broker,
        };
        let config = Self {
            cleanup_policy: settings.get("cleanup.policy")?,
            compression_type: settings.get("compression.type")?,
            compression_gzip_level: settings.get("compression.gzip.level")?,
            compression_lz4_level: settings.get("compression.lz4.level")?,
            compression_zstd_level: settings.get("compression.zstd.level")?,
            delete_retention_ms: settings.get("delete.retention.ms")?,
            durability: settings.get("milena.durability")?,
            flush_messages: settings.get("flush.messages")?,
            flush_ms: settings.get("flush.ms")?,
            index_interval_bytes: settings.get("index.interval.bytes")?,
            max_compaction_lag_ms: settings.get("max.compaction.lag.ms")?,
            max_message_bytes: settings.get("max.message.bytes")?,
            message_timestamp_after_max_ms: settings.get("message.timestamp.after.max.ms")?,
            message_timestamp_before_max_ms: settings.get("message.timestamp.before.max.ms")?,
            message_timestamp_type: settings.get("message.timestamp.type")?,
            min_cleanable_dirty_ratio: settings.get("min.cleanable.dirty.ratio")?,
            min_compaction_lag_ms: settings.get("min.compaction.lag.ms")?,
            min_insync_replicas: settings.get("min.insync.replicas")?,
            retention_bytes: settings.get("retention.bytes")?,
            retention_ms: settings.get("retention.ms")?,
            segment_bytes: segment_bytes(&settings)?,
            segment_index_bytes: settings.get("segment.index.bytes")?,
            segment_jitter_ms: settings.get("segment.jitter.ms")?,
            segment_ms: settings.get("segment.ms")?,
            unclean_leader_election_enable: settings.get("unclean.leader.election.enable")?,
        };
        config.check_compaction_lags()?;
        Ok(config)
    }

    fn check_compaction_lags(&self) -> Result<(), ConfigError> {
        if self.min_compaction_lag_ms <= self.max_compaction_lag_ms {
            return Ok(());
        }
        Err(ConfigError::Contradiction {
            name: "min.compaction.lag.ms".to_owned(),
            value: self.min_compaction_lag_ms.to_string(),
            other: "max.compaction.lag.ms".to_owned(),
            other_value: self.max_compaction_lag_ms.to_string(),
        })
    }
}

/// The hidden key wins over the one that it makes smaller.
fn segment_bytes(settings: &Layers<'_>) -> Result<i32, ConfigError> {
    match settings.get("internal.segment.bytes") {
        Err(ConfigError::Missing { .. }) => settings.get("segment.bytes"),
        smaller => smaller,
    }
}

impl FromConfigValue for CleanupPolicy {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        let policies = Vec::from_config_value(value)?;
        let has = |name| policies.iter().any(|policy| policy == name);
        Some(Self {
            delete: has("delete"),
            compact: has("compact"),
        })
    }
}

impl FromConfigValue for CompressionType {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        match String::from_config_value(value)?.as_str() {
            "uncompressed" => Some(Self::Uncompressed),
            "gzip" => Some(Self::Gzip),
            "snappy" => Some(Self::Snappy),
            "lz4" => Some(Self::Lz4),
            "zstd" => Some(Self::Zstd),
            "producer" => Some(Self::Producer),
            _ => None,
        }
    }
}

impl FromConfigValue for TimestampType {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        match String::from_config_value(value)?.as_str() {
            "CreateTime" => Some(Self::CreateTime),
            "LogAppendTime" => Some(Self::LogAppendTime),
            _ => None,
        }
    }
}

impl FromConfigValue for Durability {
    fn from_config_value(value: ConfigValue) -> Option<Self> {
        match String::from_config_value(value)?.as_str() {
            "memory" => Some(Self::Memory),
            "os" => Some(Self::Os),
            "fsync" => Some(Self::Fsync),
            _ => None,
        }
    }
}
