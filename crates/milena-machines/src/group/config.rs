//! Configuration of groups, already validated by the broker.

use std::collections::BTreeMap;

use bytestring::ByteString;

use super::{CONSUMER_ASSIGNORS, GroupLimits};

/// The fields are named after Kafka's configuration keys; the comments say which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// Whether `group.coordinator.rebalance.protocols` contains `consumer`.
    pub consumer_protocol_enabled: bool,
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: i32,
    /// `group.min.session.timeout.ms`, `group.max.session.timeout.ms`
    pub session_timeout_ms_min: i32,
    pub session_timeout_ms_max: i32,
    /// `group.max.size`
    pub classic_size_max: usize,
    /// `group.consumer.max.size`
    pub consumer_size_max: usize,
    /// `group.consumer.session.timeout.ms`
    pub consumer_session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`
    pub consumer_heartbeat_interval_ms: i32,
    /// `group.consumer.assignors`: the first is the default.
    pub consumer_assignors: Vec<ByteString>,
    /// `group.consumer.migration.policy`
    pub migration_policy: MigrationPolicy,
    /// `group.consumer.regex.refresh.interval.ms`
    pub regex_refresh_interval_ms: i32,
    /// `offset.metadata.max.bytes`
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in milliseconds
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval_ms: i64,
    pub limits: GroupLimits,
    /// Configuration of single groups.
    pub overrides: BTreeMap<ByteString, GroupOverrides>,
}

/// The configuration of one group; `None` means the broker's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupOverrides {
    /// `consumer.session.timeout.ms`
    pub consumer_session_timeout_ms: Option<i32>,
    /// `consumer.heartbeat.interval.ms`
    pub consumer_heartbeat_interval_ms: Option<i32>,
}

/// Whether groups may change their protocol while they have members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MigrationPolicy {
    Disabled,
    Upgrade,
    Downgrade,
    Bidirectional,
}

impl MigrationPolicy {
    pub fn can_upgrade(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    pub fn can_downgrade(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
}

impl Default for GroupConfig {
    /// Kafka's defaults, except for the initial delay: the broker has a default of its own, and tests would wait for
    /// it.
    fn default() -> Self {
        Self {
            consumer_protocol_enabled: true,
            initial_rebalance_delay_ms: 0,
            session_timeout_ms_min: 6_000,
            session_timeout_ms_max: 1_800_000,
            classic_size_max: i32::MAX as usize,
            consumer_size_max: i32::MAX as usize,
            consumer_session_timeout_ms: 45_000,
            consumer_heartbeat_interval_ms: 5_000,
            consumer_assignors: CONSUMER_ASSIGNORS.map(Into::into).to_vec(),
            migration_policy: MigrationPolicy::Bidirectional,
            regex_refresh_interval_ms: 600_000,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 7 * 24 * 3_600_000,
            offsets_retention_check_interval_ms: 600_000,
            limits: GroupLimits::default(),
            overrides: BTreeMap::new(),
        }
    }
}

impl GroupConfig {
    pub(super) fn consumer_session_timeout_ms(&self, group_id: &str) -> i32 {
        let own = self
            .overrides
            .get(group_id)
            .and_then(|own| own.consumer_session_timeout_ms);
        own.unwrap_or(self.consumer_session_timeout_ms)
    }

    pub(super) fn consumer_heartbeat_interval_ms(&self, group_id: &str) -> i32 {
        let own = self
            .overrides
            .get(group_id)
            .and_then(|own| own.consumer_heartbeat_interval_ms);
        own.unwrap_or(self.consumer_heartbeat_interval_ms)
    }
}
