//! Settings of groups: of all, and of single ones.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_config::{FromConfigValue as _, Origin};
use milena_machines::group::{GroupConfig, GroupLimits, GroupOverrides, MigrationPolicy};

use super::super::{
    BrokerConfig, BrokerOverrides, ConfigError, LimitsConfig, RawConfig, Scope,
    layers::{Layers, contradiction},
};

/// The settings of the keys `group.*` and `offset*`, and those of single groups.
pub(crate) fn resolve(raw: &BrokerOverrides) -> Result<GroupConfig, ConfigError> {
    let size = |size: i32| usize::try_from(size).unwrap_or(0);
    let protocols: Vec<String> = raw.get("group.coordinator.rebalance.protocols")?;
    let assignors: Vec<String> = raw.get("group.consumer.assignors")?;
    let policy: String = raw.get("group.consumer.migration.policy")?;
    let retention_minutes: i32 = raw.get("offsets.retention.minutes")?;
    Ok(GroupConfig {
        consumer_protocol_enabled: raw.features.level_of("group.version") > 0
            && protocols
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
        migration_policy: POLICIES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(&policy))
            .map_or(MigrationPolicy::Bidirectional, |(_, policy)| *policy),
        regex_refresh_interval_ms: raw.get("group.consumer.regex.refresh.interval.ms")?,
        offset_metadata_max_bytes: size(raw.get("offset.metadata.max.bytes")?),
        offsets_retention_ms: i64::from(retention_minutes) * 60_000,
        offsets_retention_check_interval_ms: raw.get("offsets.retention.check.interval.ms")?,
        limits: limits(raw)?,
        overrides: single_groups(raw)?,
    })
}

fn limits(raw: &BrokerOverrides) -> Result<GroupLimits, ConfigError> {
    let limits = LimitsConfig::resolve(raw)?;
    Ok(GroupLimits {
        name_bytes: limits.name_bytes,
        member_bytes: limits.member_metadata_bytes,
        members: limits.group_members,
    })
}

/// The values of `group.consumer.migration.policy`.
const POLICIES: [(&str, MigrationPolicy); 4] = [
    ("DISABLED", MigrationPolicy::Disabled),
    ("DOWNGRADE", MigrationPolicy::Downgrade),
    ("UPGRADE", MigrationPolicy::Upgrade),
    ("BIDIRECTIONAL", MigrationPolicy::Bidirectional),
];

pub(crate) const MIGRATION_POLICIES: [&str; 4] = {
    let [(disabled, _), (downgrade, _), (upgrade, _), (bidirectional, _)] = POLICIES;
    [disabled, downgrade, upgrade, bidirectional]
};

/// Checks every setting of one group and the rules between them.
pub(crate) fn check_own(own: &RawConfig, broker: &BrokerOverrides) -> Result<(), ConfigError> {
    let layers = Layers {
        scope: Scope::Group,
        own,
        broker,
    };
    layers.check_own()?;
    let heartbeat: i32 = layers.get(HEARTBEAT.own)?;
    let session: i32 = layers.get(SESSION.own)?;
    for (limited, value) in [(HEARTBEAT, heartbeat), (SESSION, session)] {
        let (min, max): (i32, i32) = (broker.get(limited.min)?, broker.get(limited.max)?);
        for (limit, limit_value, fits, rule) in [
            (limited.min, min, value >= min, "it is below the minimum of the broker"),
            (limited.max, max, value <= max, "it is above the maximum of the broker"),
        ] {
            if !fits {
                let first = layers.setting(limited.own, value);
                return Err(contradiction(first, broker.setting(limit, limit_value), rule));
            }
        }
    }
    if heartbeat < session {
        return Ok(());
    }
    Err(contradiction(
        layers.setting(HEARTBEAT.own, heartbeat),
        layers.setting(SESSION.own, session),
        "the heartbeat interval must be shorter than the session timeout",
    ))
}

/// The groups whose settings are outside of limits that the broker was started with, each with the error.
pub(crate) fn misfits(broker: &BrokerConfig) -> impl Iterator<Item = (&str, ConfigError)> {
    let groups = broker.overrides.groups.iter();
    groups.filter_map(|(group, own)| Some((group.as_str(), check_own(own, &broker.effective).err()?)))
}

/// The settings of single groups. They were checked when they were set; a value outside of the broker's present limits is
/// clamped, as in Kafka.
fn single_groups(broker: &BrokerOverrides) -> Result<BTreeMap<ByteString, GroupOverrides>, ConfigError> {
    let groups = broker.groups.iter().map(|(group, own)| {
        let overrides = GroupOverrides {
            consumer_session_timeout_ms: within_limits(SESSION, own, broker)?,
            consumer_heartbeat_interval_ms: within_limits(HEARTBEAT, own, broker)?,
        };
        Ok((group.as_str().into(), overrides))
    });
    groups.collect()
}

fn within_limits(limited: Limited, own: &RawConfig, broker: &BrokerOverrides) -> Result<Option<i32>, ConfigError> {
    let parse = |text: &String| Scope::Group.schema().parse(limited.own, text, &Origin::Request).ok();
    let value = own.get(limited.own).and_then(parse);
    let (min, max): (i32, i32) = (broker.get(limited.min)?, broker.get(limited.max)?);
    let nearest = |value: i32| value.min(max).max(min);
    Ok(value.as_ref().and_then(i32::from_config_value).map(nearest))
}

/// A key of a group, and the broker's keys that limit it.
#[derive(Clone, Copy)]
struct Limited {
    own: &'static str,
    min: &'static str,
    max: &'static str,
}

const HEARTBEAT: Limited = Limited {
    own: "consumer.heartbeat.interval.ms",
    min: "group.consumer.min.heartbeat.interval.ms",
    max: "group.consumer.max.heartbeat.interval.ms",
};
const SESSION: Limited = Limited {
    own: "consumer.session.timeout.ms",
    min: "group.consumer.min.session.timeout.ms",
    max: "group.consumer.max.session.timeout.ms",
};
