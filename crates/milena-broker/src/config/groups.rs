//! The settings of groups: of all, and of single ones.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::group::{GroupConfig, GroupOverrides, MigrationPolicy};

use super::{
    BrokerConfig, BrokerOverrides, ConfigError, ConfigValue, FromConfigValue, RawConfig, Scope, broker::contradiction,
    layers::Layers, lookup::definition_of,
};

/// What the keys `group.*` and `offset*` say, and those of single groups.
pub(super) fn resolve(raw: &BrokerOverrides) -> Result<GroupConfig, ConfigError> {
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
        overrides: single_groups(raw)?,
    })
}

/// Checks everything that was set for one group, and the whole.
pub(super) fn check_own(own: &RawConfig, broker: &BrokerOverrides) -> Result<(), ConfigError> {
    for (name, text) in own {
        ConfigValue::parse(definition_of(Scope::Group, name)?, text)?;
    }
    let layers = Layers {
        scope: Scope::Group,
        own,
        broker,
    };
    let heartbeat: i32 = layers.get(HEARTBEAT.own)?;
    let session: i32 = layers.get(SESSION.own)?;
    for (limited, value) in [(HEARTBEAT, heartbeat), (SESSION, session)] {
        let (least, most) = (broker.get(limited.least)?, broker.get(limited.most)?);
        for (limit, limit_value, fits) in [
            (limited.least, least, value >= least),
            (limited.most, most, value <= most),
        ] {
            check_fits(fits, (limited.own, value), (limit, limit_value))?;
        }
    }
    check_fits(heartbeat < session, (HEARTBEAT.own, heartbeat), (SESSION.own, session))
}

/// The groups whose settings no longer fit, because the broker was started with other limits, and why.
pub(crate) fn misfits(broker: &BrokerConfig) -> impl Iterator<Item = (&str, ConfigError)> {
    let groups = broker.overrides.groups.iter();
    groups.filter_map(|(group, own)| Some((group.as_str(), check_own(own, &broker.overrides).err()?)))
}

/// What holds for groups that have settings of their own. They were checked when they were set; what is outside of the
/// limits that the broker has now counts as the nearest that is inside, as in Kafka.
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
    let definition = definition_of(Scope::Group, limited.own)?;
    let value = own
        .get(limited.own)
        .and_then(|text| ConfigValue::parse(definition, text).ok());
    let (least, most): (i32, i32) = (broker.get(limited.least)?, broker.get(limited.most)?);
    let nearest = |value: i32| value.min(most).max(least);
    Ok(value.and_then(i32::from_config_value).map(nearest))
}

/// A key of a group, and the broker's keys that limit it.
#[derive(Clone, Copy)]
struct Limited {
    own: &'static str,
    least: &'static str,
    most: &'static str,
}

const HEARTBEAT: Limited = Limited {
    own: "consumer.heartbeat.interval.ms",
    least: "group.consumer.min.heartbeat.interval.ms",
    most: "group.consumer.max.heartbeat.interval.ms",
};
const SESSION: Limited = Limited {
    own: "consumer.session.timeout.ms",
    least: "group.consumer.min.session.timeout.ms",
    most: "group.consumer.max.session.timeout.ms",
};

fn check_fits(fits: bool, (name, value): (&str, i32), (other, other_value): (&str, i32)) -> Result<(), ConfigError> {
    if fits {
        return Ok(());
    }
    Err(contradiction(
        (name, &value.to_string()),
        (other, &other_value.to_string()),
    ))
}
