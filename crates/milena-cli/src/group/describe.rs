//! `milena group describe`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use milena_client::{
    admin::{Admin, GroupDescription, OffsetSpec},
    consumer::TopicPartition,
};
use serde::Serialize;

use super::groups::Groups;
use crate::{
    admin_arguments::AdminArguments,
    output::{Table, counted, split},
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct GroupReport {
    group: String,
    #[serde(rename = "type")]
    group_type: String,
    state: String,
    assignment_strategy: String,
    coordinator: Coordinator,
    members: usize,
    /// The sum over all partitions with a known lag; `None` if there are none.
    lag: Option<i64>,
    /// The number of partitions without a known lag: nothing is committed yet, or there is no leader.
    lag_unknown: usize,
    partitions: Vec<Partition>,
}

#[derive(Serialize)]
struct Coordinator {
    id: i32,
    host: String,
    port: u16,
}

#[derive(Serialize)]
struct Partition {
    topic: String,
    partition: i32,
    current_offset: Option<i64>,
    log_end_offset: Option<i64>,
    lag: Option<i64>,
    consumer_id: Option<String>,
    host: Option<String>,
    client_id: Option<String>,
    /// The owner is a static member that left temporarily and keeps its partitions.
    absent: bool,
}

/// The member epoch of a static member that left temporarily.
pub(super) const ABSENT_EPOCH: i32 = -2;

pub(super) async fn describe(arguments: &Arguments) -> Result<()> {
    arguments.groups.check()?;
    let admin = arguments.common.connection.admin().await?;
    let names = arguments.groups.names(&admin).await?;
    let (groups, problems) = split(admin.describe_groups(names).await);
    let names: Vec<_> = groups.iter().map(|(name, _)| name.clone()).collect();
    let (committed, unread) = split(admin.list_group_offsets(names).await);
    let mut committed: BTreeMap<_, _> = committed.into_iter().collect();
    let mut described = vec![];
    for (name, group) in groups {
        let offsets = committed.remove(&name).unwrap_or_default();
        let offsets = offsets
            .into_iter()
            .map(|(partition, at)| (partition, at.offset))
            .collect();
        described.push(describe_one(&admin, group, offsets).await);
    }
    let text = || described.iter().map(text).collect::<Vec<_>>().join("\n");
    arguments.common.output.print(&described, text)?;
    problems.and(unread)
}

async fn describe_one(admin: &Admin, group: GroupDescription, offsets: BTreeMap<TopicPartition, i64>) -> GroupReport {
    let assigned = group.members.iter().flat_map(|member| &member.assignment);
    let all: BTreeSet<TopicPartition> = assigned.chain(offsets.keys()).cloned().collect();
    let ends = admin
        .list_offsets(all.iter().map(|partition| (partition.clone(), OffsetSpec::Latest)))
        .await;
    let partitions = all.into_iter().map(|partition| {
        let current_offset = offsets.get(&partition).copied();
        // A partition without a leader, or of a deleted topic, has no end offset.
        let end = ends
            .get(&partition)
            .and_then(|end| end.as_ref().ok().copied().flatten());
        let log_end_offset = end.map(|end| end.offset);
        let owner = group
            .members
            .iter()
            .find(|member| member.assignment.contains(&partition));
        Partition {
            topic: partition.topic.to_string(),
            partition: partition.partition,
            current_offset,
            log_end_offset,
            lag: log_end_offset
                .zip(current_offset)
                .map(|(end, current)| (end - current).max(0)),
            consumer_id: owner.map(|owner| owner.member_id.to_string()),
            host: owner.map(|owner| owner.host.to_string()),
            client_id: owner.map(|owner| owner.client_id.to_string()),
            absent: owner.is_some_and(|owner| owner.epoch == Some(ABSENT_EPOCH)),
        }
    });
    let partitions: Vec<Partition> = partitions.collect();
    GroupReport {
        group: group.group_id.to_string(),
        group_type: group.group_type.name().to_owned(),
        state: group.state.to_string(),
        assignment_strategy: group.assignor.to_string(),
        coordinator: Coordinator {
            id: group.coordinator.id,
            host: group.coordinator.host.to_string(),
            port: group.coordinator.port,
        },
        members: group.members.len(),
        lag: total_lag(&partitions),
        lag_unknown: partitions.iter().filter(|partition| partition.lag.is_none()).count(),
        partitions,
    }
}

/// `None` if no lag is known.
fn total_lag(partitions: &[Partition]) -> Option<i64> {
    partitions
        .iter()
        .filter_map(|partition| partition.lag)
        .reduce(|a, b| a.saturating_add(b))
}

fn text(group: &GroupReport) -> String {
    let Coordinator { id, host, port } = &group.coordinator;
    let strategy = match group.assignment_strategy.as_str() {
        "" => "-",
        name => name,
    };
    let lag = match (group.lag, group.lag_unknown) {
        (None, _) => "-".to_owned(),
        (Some(lag), 0) => lag.to_string(),
        (Some(lag), unknown) => format!("{lag} ({} unknown)", counted(unknown, "partition")),
    };
    let summary = format!(
        "Group: {}  State: {}  Type: {}  Members: {}  Lag: {lag}\nAssignor: {strategy}  Coordinator: {host}:{port} ({id})\n",
        group.group, group.state, group.group_type, group.members
    );
    let number = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let has_owners = group.partitions.iter().any(|partition| partition.consumer_id.is_some());
    let owner_columns: &[&str] = if has_owners {
        &["CONSUMER-ID", "HOST", "CLIENT-ID"]
    } else {
        &[]
    };
    let columns = ["TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"];
    let mut table = Table::new(&[&columns[..], owner_columns].concat());
    for partition in &group.partitions {
        let mut cells = vec![
            partition.topic.clone(),
            partition.partition.to_string(),
            number(partition.current_offset),
            number(partition.log_end_offset),
            number(partition.lag),
        ];
        if has_owners {
            let host = match partition.absent {
                true => "absent".to_owned(),
                false => text(&partition.host),
            };
            cells.extend([text(&partition.consumer_id), host, text(&partition.client_id)]);
        }
        table.row(cells);
    }
    summary + &table.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(lag: Option<i64>) -> Partition {
        Partition {
            topic: "letters".to_owned(),
            partition: 0,
            current_offset: None,
            log_end_offset: Some(3),
            lag,
            consumer_id: None,
            host: None,
            client_id: None,
            absent: false,
        }
    }

    #[test]
    fn a_lag_that_is_not_known_is_not_zero() {
        assert_eq!(total_lag(&[]), None);
        assert_eq!(total_lag(&[partition(None)]), None);
        assert_eq!(
            total_lag(&[partition(None), partition(Some(2)), partition(Some(0))]),
            Some(2)
        );
    }
}
