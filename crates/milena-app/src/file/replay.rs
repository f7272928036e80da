//! `[[unknown_topics]]` and `[replay]` of a file.

use std::collections::BTreeMap;

use milena_client::consumer::TopicPartition;
use toml::Value;

use super::keys::Keys;
use crate::{Replay, ReplayFrom, ReplayTo, UnknownTopic, failure::parse_rfc3339};

/// `[[unknown_topics]]`: topics that match a pattern and have no handler of their own.
pub(super) fn unknown_topics(keys: &Keys<'_>) -> Vec<(String, UnknownTopic)> {
    let mut found = vec![];
    for keys in keys.list("unknown_topics") {
        let topic = keys.required("topic");
        let action = keys.get_as("action", "\"skip\", \"dead-letter\" or \"stop\"", |value| {
            match value.as_str()? {
                "skip" => Some(UnknownTopic::Skip),
                "dead-letter" => Some(UnknownTopic::DeadLetter),
                "stop" => Some(UnknownTopic::Stop),
                _ => None,
            }
        });
        keys.finish();
        if let Some(topic) = topic {
            found.push((topic, action.unwrap_or(UnknownTopic::Skip)));
        }
    }
    found
}

/// `[replay]`: a range of all topics.
pub(super) fn replay(keys: &Keys<'_>) -> Option<Replay> {
    let keys = keys.inner("replay")?;
    let name: Option<String> = keys.required("name");
    let from = keys.get_as(
        "from",
        "\"beginning\", a time such as 2026-07-01T08:00:00Z, or a table of offsets such as { \"orders-0\" = 17 }",
        |value| match bound(value, "beginning")? {
            Bound::Edge => Some(ReplayFrom::Beginning),
            Bound::Time(ms) => Some(ReplayFrom::Time(ms)),
            Bound::Offsets(offsets) => Some(ReplayFrom::Offsets(offsets)),
        },
    );
    let to = keys.get_as(
        "to",
        "\"end\", a time such as 2026-07-01T08:00:00Z, or a table of offsets such as { \"orders-0\" = 17 }",
        |value| match bound(value, "end")? {
            Bound::Edge => Some(ReplayTo::End),
            Bound::Time(ms) => Some(ReplayTo::Time(ms)),
            Bound::Offsets(offsets) => Some(ReplayTo::Offsets(offsets)),
        },
    );
    let is_periodic = keys.get("periodic").unwrap_or(false);
    keys.finish();
    let replay = Replay::new(name?).from(from.unwrap_or(ReplayFrom::Beginning));
    let replay = replay.to(to.unwrap_or(ReplayTo::End));
    Some(if is_periodic { replay.periodic() } else { replay })
}

enum Bound {
    Edge,
    Time(i64),
    Offsets(BTreeMap<TopicPartition, i64>),
}

fn bound(value: &Value, edge: &str) -> Option<Bound> {
    match value {
        Value::String(text) if text == edge => Some(Bound::Edge),
        Value::String(text) => parse_rfc3339(text).map(Bound::Time),
        Value::Integer(ms) => Some(Bound::Time(*ms)),
        Value::Datetime(time) => parse_rfc3339(&time.to_string()).map(Bound::Time),
        Value::Table(offsets) => {
            let offsets = offsets.iter().map(|(partition, offset)| {
                let (topic, number) = partition.rsplit_once('-')?;
                let offset = offset.as_integer().filter(|offset| *offset >= 0)?;
                Some((TopicPartition::new(topic, number.parse().ok()?), offset))
            });
            offsets.collect::<Option<BTreeMap<_, _>>>().map(Bound::Offsets)
        }
        _ => None,
    }
}
