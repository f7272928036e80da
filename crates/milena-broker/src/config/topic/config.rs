//! The typed configuration of a topic.

use super::{
    super::{
        BrokerConfig, BrokerOverrides, ConfigError, RawConfig, Scope,
        layers::{Layers, contradiction},
    },
    CleanupPolicy, CompressionType, Durability, TimestampType,
};

/// The raw settings of a topic; [`TopicConfig::resolve`] checks them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicOverrides(pub RawConfig);

/// The effective configuration of a topic: its own settings, the broker's, and the defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    pub cleanup_policy: CleanupPolicy,
    pub compression_type: CompressionType,
    /// -1 for the library's default.
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
    /// Negative for unlimited.
    pub retention_bytes: i64,
    /// -1 for unlimited.
    pub retention_ms: i64,
    pub segment_bytes: i32,
    pub segment_index_bytes: i32,
    pub segment_jitter_ms: i64,
    pub segment_ms: i64,
    pub unclean_leader_election_enable: bool,
}

impl TopicConfig {
    /// Checks every setting and the rules between them.
    pub fn resolve(overrides: &TopicOverrides, broker: &BrokerConfig) -> Result<Self, ConfigError> {
        Self::resolve_with(overrides, &broker.effective)
    }

    pub(crate) fn resolve_with(overrides: &TopicOverrides, broker: &BrokerOverrides) -> Result<Self, ConfigError> {
        let settings = Layers {
            scope: Scope::Topic,
            own: &overrides.0,
            broker,
        };
        settings.check_own()?;
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
            // The hidden key, which allows smaller segments, wins.
            segment_bytes: match settings.find("internal.segment.bytes")? {
                Some(bytes) => bytes,
                None => settings.get("segment.bytes")?,
            },
            segment_index_bytes: settings.get("segment.index.bytes")?,
            segment_jitter_ms: settings.get("segment.jitter.ms")?,
            segment_ms: settings.get("segment.ms")?,
            unclean_leader_election_enable: settings.get("unclean.leader.election.enable")?,
        };
        config.check_compaction_lags(&settings)?;
        Ok(config)
    }

    fn check_compaction_lags(&self, settings: &Layers<'_>) -> Result<(), ConfigError> {
        if self.min_compaction_lag_ms <= self.max_compaction_lag_ms {
            return Ok(());
        }
        Err(contradiction(
            settings.setting("min.compaction.lag.ms", self.min_compaction_lag_ms),
            settings.setting("max.compaction.lag.ms", self.max_compaction_lag_ms),
            "the minimum cannot exceed the maximum",
        ))
    }
}
