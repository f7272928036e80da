//! The settings of groups.

use milena_machines::group::{GroupConfig, MigrationPolicy};

use super::{BrokerOverrides, ConfigError};

/// What the keys `group.*` and `offset*` say.
pub(super) fn resolve(raw: &BrokerOverrides) -> Result<GroupConfig, ConfigError> {
    let size = |size: i32| usize::try_from(size).unwrap_or(0);
    let protocols: Vec<String> = raw.get("group.coordinator.rebalance.protocols")?;
    let assignors: Vec<String> = raw.get("group.consumer.assignors")?;
    let policy: String = raw.get("group.consumer.migration.policy")?;
    let retention_minutes: i32 = raw.get("offsets.retention.minutes")?;
    Ok(GroupConfig {
        consumer_protocol_enabled: protocols
            .iter()
            .any(|protocol| protocol.eq_ignore_ascii_case("consumer")),
        initial_rebalance_delay_ms: raw.get("group.initial.rebalance.delay.ms")?,
        session_timeout_ms_min: raw.get("group.min.session.timeout.ms")?,
        session_timeout_ms_max: raw.get("group.max.session.timeout.ms")?,
        classic_size_max: size(raw.get("group.max.size")?),
        consumer_size_max: size(raw.get("group.consumer.max.size")?),
        consumer_session_timeout_ms: raw.get("group.consumer.session.timeout.ms")?,
        consumer_heartbeat_interval_ms: raw.get("group.consumer.heartbeat.interval.ms")?,
        consumer_assignors: assignors.into_iter().map(Into::into).collect(),
        migration_policy: match policy.to_ascii_lowercase().as_str() {
            "disabled" => MigrationPolicy::Disabled,
            "upgrade" => MigrationPolicy::Upgrade,
            "downgrade" => MigrationPolicy::Downgrade,
            _ => MigrationPolicy::Bidirectional,
        },
        regex_refresh_interval_ms: raw.get("group.consumer.regex.refresh.interval.ms")?,
        offset_metadata_max_bytes: size(raw.get("offset.metadata.max.bytes")?),
        offsets_retention_ms: i64::from(retention_minutes) * 60_000,
        offsets_retention_check_interval_ms: raw.get("offsets.retention.check.interval.ms")?,
        ..GroupConfig::default()
    })
}
