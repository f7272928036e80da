//! `milena group seek`.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use milena_client::{
    admin::{Admin, OffsetTarget},
    consumer::TopicPartition,
};
use serde::Serialize;

use super::Common;
use crate::{
    cluster,
    consume::parse_time,
    output::{Table, split},
};

pub(crate) const HELP: &str = "\
Examples:
  milena group seek -b localhost:9092 readers --to earliest                        all that it has committed
  milena group seek -b localhost:9092 readers --to time:2026-07-01T08:00:00Z -t letters
  milena group seek -b localhost:9092 readers --to shift:-100 -t letters:0,1 --dry-run

The group must have no members: they would commit over it. What it has read comes again, or what lies between is never
read; --dry-run shows from where to where it would go.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The group
    #[arg(value_name = "GROUP")]
    name: Option<String>,
    /// The same as GROUP
    #[arg(short, long, value_name = "GROUP", conflicts_with = "name")]
    group: Option<String>,
    /// Where to: earliest, latest, offset:N, time:MILLISECONDS, time:2026-07-01T08:00:00Z (UTC if no zone is given), or
    /// shift:N for so many records on, back if N is negative
    #[arg(long, value_name = "WHERE", value_parser = target)]
    to: OffsetTarget,
    /// Only this topic, or these partitions of it, as in letters:0,1; may be repeated. Without it, all that the group has
    /// committed
    #[arg(short, long, value_name = "TOPIC[:NUMBERS]", value_parser = scope)]
    topic: Vec<Scope>,
    /// Only show from where to where the group would go
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

/// A topic, or some of its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Scope {
    topic: String,
    /// All if there are none.
    partitions: Vec<i32>,
}

fn target(text: &str) -> Result<OffsetTarget, String> {
    let target = match text.split_once(':') {
        None if text == "earliest" => Some(OffsetTarget::Earliest),
        None if text == "latest" => Some(OffsetTarget::Latest),
        Some(("offset", offset)) => offset
            .parse()
            .ok()
            .filter(|offset| *offset >= 0)
            .map(OffsetTarget::Offset),
        Some(("time", time)) => parse_time(time).map(OffsetTarget::Timestamp),
        Some(("shift", count)) => count.parse().ok().map(OffsetTarget::ShiftBy),
        _ => None,
    };
    target.ok_or_else(|| {
        "it must be earliest, latest, offset:N, time:MILLISECONDS, a time such as time:2026-07-01T08:00:00Z, or shift:N"
            .to_owned()
    })
}

fn scope(text: &str) -> Result<Scope, String> {
    let Some((topic, numbers)) = text.split_once(':') else {
        return Ok(Scope {
            topic: text.to_owned(),
            partitions: vec![],
        });
    };
    let numbers: Option<Vec<i32>> = numbers.split(',').map(|number| number.trim().parse().ok()).collect();
    let partitions = numbers.ok_or("it must be a topic, or a topic and its partitions, as in letters:0,1")?;
    Ok(Scope {
        topic: topic.to_owned(),
        partitions,
    })
}

#[derive(Serialize)]
struct Moved {
    group: String,
    topic: String,
    partition: i32,
    old_offset: Option<i64>,
    new_offset: i64,
}

pub(super) async fn seek(arguments: &Arguments) -> Result<()> {
    let group = arguments.name.as_ref().or(arguments.group.as_ref());
    ensure!(
        group.is_some(),
        "name a group; `milena group list` shows which there are"
    );
    let group = group.cloned().unwrap_or_default();
    let admin = cluster::admin(&arguments.common.cluster).await?;
    let partitions = choose_partitions(&admin, &group, &arguments.topic).await?;
    let moved = match arguments.dry_run {
        true => {
            admin
                .plan_group_offsets(group.as_str(), partitions, arguments.to)
                .await?
        }
        false => {
            admin
                .reset_group_offsets(group.as_str(), partitions, arguments.to)
                .await?
        }
    };
    let (moved, problems) = split(moved);
    let moved: Vec<Moved> = moved
        .into_iter()
        .map(|(partition, planned)| Moved {
            group: group.clone(),
            topic: partition.topic.to_string(),
            partition: partition.partition,
            old_offset: planned.from,
            new_offset: planned.to,
        })
        .collect();
    arguments.common.output.print(&moved, || text(&moved))?;
    problems
}

/// The partitions that are named, or all that the group has committed something for.
async fn choose_partitions(admin: &Admin, group: &str, scopes: &[Scope]) -> Result<BTreeSet<TopicPartition>> {
    if scopes.is_empty() {
        let (committed, problems) = split(admin.list_group_offsets([group]).await);
        problems?;
        let committed = committed.into_iter().flat_map(|(_, offsets)| offsets.into_keys());
        let committed: BTreeSet<TopicPartition> = committed.collect();
        ensure!(
            !committed.is_empty(),
            "group {group} has committed nothing that could be moved; name a topic with -t to give it a place to begin"
        );
        return Ok(committed);
    }
    let names: BTreeSet<&str> = scopes.iter().map(|scope| scope.topic.as_str()).collect();
    let (described, problems) = split(admin.describe_topics(names).await);
    problems?;
    let mut partitions = BTreeSet::new();
    for (name, topic) in described {
        for scope in scopes.iter().filter(|scope| *scope.topic == *name) {
            let all = topic.partitions.iter().map(|info| info.partition.partition);
            let wanted: Vec<i32> = match scope.partitions.is_empty() {
                true => all.collect(),
                false => scope.partitions.clone(),
            };
            partitions.extend(
                wanted
                    .into_iter()
                    .map(|number| TopicPartition::new(name.clone(), number)),
            );
        }
    }
    Ok(partitions)
}

fn text(moved: &[Moved]) -> String {
    let mut table = Table::new(&["GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET"]);
    for one in moved {
        table.row([
            one.group.clone(),
            one.topic.clone(),
            one.partition.to_string(),
            one.old_offset.map_or_else(String::new, |offset| offset.to_string()),
            one.new_offset.to_string(),
        ]);
    }
    table.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_places_are_understood() {
        assert_eq!(target("earliest"), Ok(OffsetTarget::Earliest));
        assert_eq!(target("latest"), Ok(OffsetTarget::Latest));
        assert_eq!(target("offset:7"), Ok(OffsetTarget::Offset(7)));
        assert_eq!(target("time:1970-01-02"), Ok(OffsetTarget::Timestamp(86_400_000)));
        assert_eq!(target("shift:-5"), Ok(OffsetTarget::ShiftBy(-5)));
        assert_eq!(target("shift:+5"), Ok(OffsetTarget::ShiftBy(5)));
        for wrong in ["", "first", "offset:-1", "shift:", "shift:x", "time:soon"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn partitions_stand_behind_the_topic() {
        let scoped = |topic: &str, partitions: &[i32]| Scope {
            topic: topic.to_owned(),
            partitions: partitions.to_vec(),
        };
        assert_eq!(scope("letters"), Ok(scoped("letters", &[])));
        assert_eq!(scope("letters:0,2"), Ok(scoped("letters", &[0, 2])));
        for wrong in ["letters:", "letters:a", "letters:1,"] {
            assert!(scope(wrong).is_err(), "{wrong}");
        }
    }
}
