//! What must hold between the broker's settings. The rules are Kafka's.

use super::{
    BrokerOverrides, ConfigError,
    broker::{contradiction, wrong},
};

pub(super) fn check_whole(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    check_group_limits(raw)?;
    check_group_protocols(raw)?;
    check_request_memory(raw)?;
    let buffer = "it must be more than 1048576";
    check_that(raw, "log.cleaner.dedupe.buffer.size", buffer, |bytes| bytes > 1_048_576)
}

/// What groups may ask for lies between the least and the most, and heartbeats come within a session.
fn check_group_limits(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    for what in ["heartbeat.interval.ms", "session.timeout.ms"] {
        check_least_and_most(raw, "group.consumer", what)?;
    }
    let (heartbeat, session) = (
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.session.timeout.ms",
    );
    check_pair(raw, heartbeat, session, |heartbeat, session| heartbeat < session)
}

fn check_least_and_most(raw: &BrokerOverrides, group: &str, what: &str) -> Result<(), ConfigError> {
    let chosen = format!("{group}.{what}");
    check_pair(raw, &chosen, &format!("{group}.min.{what}"), |chosen, least| {
        chosen >= least
    })?;
    check_pair(raw, &chosen, &format!("{group}.max.{what}"), |chosen, most| {
        chosen <= most
    })
}

fn check_group_protocols(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    let name = "group.coordinator.rebalance.protocols";
    let protocols: Vec<String> = raw.find(name)?.unwrap_or_default();
    if protocols.iter().any(|protocol| protocol == "classic") {
        return Ok(());
    }
    Err(wrong(name, &protocols.join(","), "classic cannot be left out"))
}

/// If memory for requests is bounded, the largest request must still fit.
fn check_request_memory(raw: &BrokerOverrides) -> Result<(), ConfigError> {
    check_pair(
        raw,
        "queued.max.request.bytes",
        "socket.request.max.bytes",
        |all, largest| all <= 0 || all >= largest,
    )
}

fn check_pair(raw: &BrokerOverrides, name: &str, other: &str, fits: fn(i64, i64) -> bool) -> Result<(), ConfigError> {
    match (raw.find(name)?, raw.find(other)?) {
        (Some(value), Some(other_value)) if !fits(value, other_value) => Err(contradiction(
            (name, &value.to_string()),
            (other, &other_value.to_string()),
        )),
        _ => Ok(()),
    }
}

fn check_that(
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
