//! `milena topic trim`.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use milena_client::{
    admin::{Admin, AdminError, ErrorCode, OffsetSpec, Results},
    consumer::TopicPartition,
};
use serde::Serialize;

use super::Topics;
use crate::{
    admin_arguments::AdminArguments,
    output::{Table, fail_if_any, split},
    time::parse_instant,
};

pub(crate) const HELP: &str = "\
Examples:
  milena topic trim letters --before offset:1000 -p 0
  milena topic trim letters --before time:2026-07-01T08:00:00Z
  milena topic trim letters --before time:-7d
  milena topic trim letters --before latest             everything

Deleted records cannot be restored.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    /// Delete all records before: offset:N, time:MILLISECONDS, time:2026-07-01T08:00:00Z (UTC without a zone),
    /// time:-7d, or latest (everything)
    #[arg(long, value_name = "WHERE", value_parser = before)]
    before: Before,
    /// Only this partition; may be repeated
    #[arg(short, long, value_name = "NUMBER")]
    partition: Vec<i32>,
    /// Only print the new start offsets
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Latest,
    Offset(i64),
    Time(i64),
}

fn before(text: &str) -> Result<Before, String> {
    let before = match text.split_once(':') {
        None if text == "latest" => Some(Before::Latest),
        Some(("offset", offset)) => offset.parse().ok().filter(|offset| *offset >= 0).map(Before::Offset),
        Some(("time", time)) => parse_instant(time).map(Before::Time),
        _ => None,
    };
    before.ok_or_else(|| {
        "expected latest, offset:N, time:MILLISECONDS or a time such as time:2026-07-01T08:00:00Z".to_owned()
    })
}

#[derive(Serialize)]
struct NewStart {
    topic: String,
    partition: i32,
    /// The new start offset.
    start_offset: i64,
}

pub(super) async fn trim(arguments: &Arguments) -> Result<()> {
    let admin = arguments.common.connection.admin().await?;
    let partitions = choose_partitions(&admin, arguments).await?;
    let (wanted, unknown) = split(find(&admin, partitions, arguments.before).await);
    let (begins, failed) = if arguments.dry_run {
        (wanted, Ok(()))
    } else {
        let wanted = wanted.into_iter().map(|(partition, offset)| (partition, Some(offset)));
        split_refused(admin.delete_records(wanted).await)
    };
    let trimmed: Vec<NewStart> = begins
        .into_iter()
        .map(|(partition, start_offset)| NewStart {
            topic: partition.topic.to_string(),
            partition: partition.partition,
            start_offset,
        })
        .collect();
    arguments.common.output.print(&trimmed, || {
        let mut table = Table::new(&["TOPIC", "PARTITION", "START-OFFSET"]);
        for one in &trimmed {
            table.row([
                one.topic.clone(),
                one.partition.to_string(),
                one.start_offset.to_string(),
            ]);
        }
        table.write()
    })?;
    unknown.and(failed)
}

/// As [`split`], but a topic that cannot be trimmed at all is reported once.
fn split_refused(results: Results<TopicPartition, i64>) -> (Vec<(TopicPartition, i64)>, Result<()>) {
    let is_refused = |result: &Result<i64, AdminError>| {
        result
            .as_ref()
            .is_err_and(|error| error.code() == Some(ErrorCode::PolicyViolation))
    };
    let (refused, rest): (Results<_, _>, Results<_, _>) =
        results.into_iter().partition(|(_, result)| is_refused(result));
    let topics: BTreeSet<String> = refused
        .into_keys()
        .map(|partition| partition.topic.to_string())
        .collect();
    let (trimmed, problems) = split(rest);
    let reasons = topics
        .into_iter()
        .map(|topic| format!("{topic} is compacted; only a topic with cleanup.policy=delete can be trimmed"));
    (trimmed, fail_if_any(reasons).and(problems))
}

async fn choose_partitions(admin: &Admin, arguments: &Arguments) -> Result<Vec<TopicPartition>> {
    let (described, problems) = split(admin.describe_topics(arguments.topics.names()?).await);
    problems?;
    for (name, topic) in &described {
        let known = |number: &i32| topic.partitions.iter().any(|info| info.partition.partition == *number);
        if let Some(number) = arguments.partition.iter().find(|number| !known(number)) {
            let count = topic.partitions.len();
            bail!("{name} has no partition {number}; it has {count}, numbered from 0");
        }
    }
    let infos = described.into_iter().flat_map(|(_, topic)| topic.partitions);
    let partitions = infos.map(|info| info.partition);
    let wanted = |partition: &TopicPartition| {
        arguments.partition.is_empty() || arguments.partition.contains(&partition.partition)
    };
    Ok(partitions.filter(wanted).collect())
}

/// The new start offset of each partition. Offsets past the end become the end, so that one offset fits all partitions.
async fn find(admin: &Admin, partitions: Vec<TopicPartition>, before: Before) -> Results<TopicPartition, i64> {
    let ends = ends(admin, &partitions, OffsetSpec::Latest).await;
    let wanted = wanted(admin, &partitions, before).await;
    let mut found = Results::new();
    for partition in partitions {
        let end = ends.get(&partition).cloned();
        let wanted = wanted.get(&partition).cloned();
        let offset = match (end, wanted) {
            (Some(Ok(end)), Some(Ok(wanted))) => Ok(wanted.unwrap_or(i64::MAX).min(end.unwrap_or(0))),
            (Some(Err(error)), _) | (_, Some(Err(error))) => Err(error),
            _ => continue,
        };
        found.insert(partition, offset);
    }
    found
}

/// Offsets of partitions; `None` is the end.
type Ends = Results<TopicPartition, Option<i64>>;

async fn wanted(admin: &Admin, partitions: &[TopicPartition], before: Before) -> Ends {
    let all = |offset: Option<i64>| -> Ends {
        let same = |partition: &TopicPartition| (partition.clone(), Ok::<_, AdminError>(offset));
        partitions.iter().map(same).collect()
    };
    match before {
        Before::Latest => all(None),
        Before::Offset(offset) => all(Some(offset)),
        Before::Time(time) => ends(admin, partitions, OffsetSpec::Timestamp(time)).await,
    }
}

async fn ends(admin: &Admin, partitions: &[TopicPartition], spec: OffsetSpec) -> Ends {
    let asked = partitions.iter().map(|partition| (partition.clone(), spec));
    let listed = admin.list_offsets(asked).await.into_iter();
    listed
        .map(|(partition, listed)| (partition, listed.map(|listed| listed.map(|found| found.offset))))
        .collect()
}
