//! Rules between keys of the broker. They are Kafka's.

use milena_machines::group::CONSUMER_ASSIGNORS;

use super::{
    super::{BrokerOverrides, ConfigError, layers::contradiction},
    config::wrong,
};

pub(super) fn check_whole(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    check_group_limits(raw)?;
    check_group_protocols(raw)?;
    check_consumer_assignors(raw)?;
    check_request_memory(raw)?;
    let buffer = "it must be more than 1048576";
    check_number(raw, "log.cleaner.dedupe.buffer.size", buffer, |bytes| bytes > 1_048_576)
}

/// The settings of groups lie between their minimum and maximum, and a session outlasts a heartbeat interval.
fn check_group_limits(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    for key in ["heartbeat.interval.ms", "session.timeout.ms"] {
        let default = format!("group.consumer.{key}");
        let (min, max) = (format!("group.consumer.min.{key}"), format!("group.consumer.max.{key}"));
        check_pair(raw, &default, &min, "it is below the minimum", |default, min| {
            default >= min
        })?;
        check_pair(raw, &default, &max, "it is above the maximum", |default, max| {
            default <= max
        })?;
    }
    check_pair(
        raw,
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
        "the heartbeat interval must be shorter than the session timeout",
        |heartbeat, session| heartbeat < session,
    )
}

fn check_group_protocols(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    let name = "group.coordinator.rebalance.protocols";
    let protocols: Vec<String> = raw.find(name)?.unwrap_or_default();
    if protocols.iter().any(|protocol| protocol == "classic") {
        return Ok(());
    }
    Err(wrong(name, &protocols.join(","), "classic must be included"))
}

fn check_consumer_assignors(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    let name = "group.consumer.assignors";
    let assignors: Vec<String> = raw.find(name)?.unwrap_or_default();
    let is_known = |assignor: &String| CONSUMER_ASSIGNORS.contains(&assignor.as_str());
    if !assignors.is_empty() && assignors.iter().all(is_known) {
        return Ok(());
    }
    let reason = format!("the assignors of this broker are {}", CONSUMER_ASSIGNORS.join(", "));
    Err(wrong(name, &assignors.join(","), &reason))
}

/// If the memory for requests is limited, the largest request must fit.
fn check_request_memory(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    check_pair(
        raw,
        "queued.max.request.bytes",
        "socket.request.max.bytes",
        "the largest request must fit",
        |all, largest| all <= 0 || all >= largest,
    )
}

fn check_pair(
    raw: &BrokerOverrides,
    name: &str,
    other: &str,
    rule: &'static str,
    fits: fn(i64, i64) -> bool,
) -> Result<(), ConfigError> {
    match (raw.find(name)?, raw.find(other)?) {
        (Some(value), Some(other_value)) if !fits(value, other_value) => Err(contradiction(
            raw.setting(name, value),
            raw.setting(other, other_value),
            rule,
        )),
        _ => Ok(()),
    }
}

fn check_number(
    raw: &BrokerOverrides,
    name: &str,
    problem: &'static str,
    fits: fn(i64) -> bool,
) -> Result<(), ConfigError> {
    match raw.find(name)? {
        Some(value) if !fits(value) => Err(wrong(name, &value.to_string(), problem)),
        _ => Ok(()),
    }
}
