//! `milena group members`.

use std::collections::BTreeMap;

use anyhow::Result;
use milena_client::{admin::MemberDescription, consumer::TopicPartition};
use serde::Serialize;

use super::{describe::ABSENT_EPOCH, groups::Groups};
use crate::{
    admin_arguments::AdminArguments,
    output::{Table, split},
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct Member {
    group: String,
    consumer_id: String,
    group_instance_id: Option<String>,
    host: String,
    client_id: String,
    rack: Option<String>,
    epoch: Option<i32>,
    /// A static member that left temporarily and keeps its partitions.
    absent: bool,
    /// Partition numbers by topic.
    assignment: BTreeMap<String, Vec<i32>>,
}

pub(super) async fn members(arguments: &Arguments) -> Result<()> {
    arguments.groups.check()?;
    let admin = arguments.common.connection.admin().await?;
    let names = arguments.groups.names(&admin).await?;
    let (groups, problems) = split(admin.describe_groups(names).await);
    let members = groups.into_iter().flat_map(|(name, group)| {
        let members = group.members.into_iter();
        members.map(move |of_group| member(name.to_string(), of_group))
    });
    let members: Vec<Member> = members.collect();
    arguments.common.output.print(&members, || text(&members))?;
    problems
}

fn member(group: String, member: MemberDescription) -> Member {
    let mut assignment: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for TopicPartition { topic, partition } in member.assignment {
        assignment.entry(topic.to_string()).or_default().push(partition);
    }
    Member {
        group,
        consumer_id: member.member_id.to_string(),
        group_instance_id: member.instance_id.map(|id| id.to_string()),
        host: member.host.to_string(),
        client_id: member.client_id.to_string(),
        rack: member.rack.map(|rack| rack.to_string()),
        epoch: member.epoch,
        absent: member.epoch == Some(ABSENT_EPOCH),
        assignment,
    }
}

fn text(members: &[Member]) -> String {
    let mut table = Table::new(&[
        "GROUP",
        "CONSUMER-ID",
        "GROUP-INSTANCE-ID",
        "HOST",
        "CLIENT-ID",
        "#PARTITIONS",
        "ASSIGNMENT",
    ]);
    for member in members {
        let topics = member.assignment.iter().map(|(topic, numbers)| {
            let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!("{topic}({})", numbers.join(","))
        });
        let count: usize = member.assignment.values().map(Vec::len).sum();
        table.row([
            member.group.clone(),
            member.consumer_id.clone(),
            member.group_instance_id.clone().unwrap_or_default(),
            match member.absent {
                true => "absent".to_owned(),
                false => member.host.clone(),
            },
            member.client_id.clone(),
            count.to_string(),
            topics.collect::<Vec<_>>().join(", "),
        ]);
    }
    table.write()
}
