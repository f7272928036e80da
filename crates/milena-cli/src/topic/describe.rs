//! `milena topic describe`.

use std::collections::BTreeMap;

use anyhow::Result;
use milena_client::{
    admin::{Admin, ConfigResource, ConfigSource, OffsetSpec, Results, TopicDescription},
    consumer::TopicPartition,
};
use serde::Serialize;

use super::Topics;
use crate::{
    admin_arguments::AdminArguments,
    output::{Table, split},
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct TopicReport {
    topic: String,
    topic_id: Option<String>,
    internal: bool,
    replication_factor: usize,
    /// Configs that differ from the default.
    configs: BTreeMap<String, Option<String>>,
    partitions: Vec<Partition>,
}

#[derive(Serialize)]
struct Partition {
    partition: i32,
    leader: Option<i32>,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    offline: Vec<i32>,
    start_offset: Option<i64>,
    end_offset: Option<i64>,
}

pub(super) async fn describe(arguments: &Arguments) -> Result<()> {
    let names = arguments.topics.names()?;
    let admin = arguments.common.connection.admin().await?;
    let (described, problems) = split(admin.describe_topics(names).await);
    let topics: Vec<TopicDescription> = described.into_iter().map(|(_, topic)| topic).collect();
    let partitions: Vec<TopicPartition> = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|info| info.partition.clone()))
        .collect();
    let starts = offsets(&admin, &partitions, OffsetSpec::Earliest).await;
    let ends = offsets(&admin, &partitions, OffsetSpec::Latest).await;
    let mut configs = configs(&admin, &topics).await;
    let described: Vec<TopicReport> = topics
        .into_iter()
        .map(|topic| TopicReport {
            topic: topic.name.to_string(),
            topic_id: topic.id.map(|id| id.to_string()),
            internal: topic.internal,
            replication_factor: topic
                .partitions
                .iter()
                .map(|info| info.replicas.len())
                .max()
                .unwrap_or_default(),
            configs: configs.remove(&*topic.name).unwrap_or_default(),
            partitions: topic
                .partitions
                .into_iter()
                .map(|info| Partition {
                    partition: info.partition.partition,
                    leader: info.leader.map(|leader| leader.id),
                    start_offset: starts.get(&info.partition).copied(),
                    end_offset: ends.get(&info.partition).copied(),
                    replicas: info.replicas,
                    isr: info.isr,
                    offline: info.offline,
                })
                .collect(),
        })
        .collect();
    let text = || described.iter().map(text).collect::<Vec<_>>().join("\n");
    arguments.common.output.print(&described, text)?;
    problems
}

/// One end of each partition. Partitions without a leader are left out.
async fn offsets(admin: &Admin, partitions: &[TopicPartition], spec: OffsetSpec) -> BTreeMap<TopicPartition, i64> {
    let asked = partitions.iter().map(|partition| (partition.clone(), spec));
    let listed: Results<_, _> = admin.list_offsets(asked).await;
    let listed = listed.into_iter();
    listed
        .filter_map(|(partition, listed)| Some((partition, listed.ok()??.offset)))
        .collect()
}

/// Configs that are set on the topic itself.
async fn configs(admin: &Admin, topics: &[TopicDescription]) -> BTreeMap<String, BTreeMap<String, Option<String>>> {
    let resources = topics.iter().map(|topic| ConfigResource::topic(topic.name.clone()));
    let described = admin.describe_configs(resources).await.into_iter();
    let own = described.filter_map(|(resource, entries)| {
        let own = entries
            .ok()?
            .into_iter()
            .filter(|entry| entry.source == ConfigSource::Topic);
        let own = own.map(|entry| (entry.name.to_string(), entry.value.map(|value| value.to_string())));
        Some((resource.name.to_string(), own.collect()))
    });
    own.collect()
}

fn text(topic: &TopicReport) -> String {
    let mut text = format!(
        "Topic: {}  TopicId: {}  PartitionCount: {}  ReplicationFactor: {}\n",
        topic.topic,
        topic.topic_id.as_deref().unwrap_or("-"),
        topic.partitions.len(),
        topic.replication_factor
    );
    if !topic.configs.is_empty() {
        let configs = topic.configs.iter();
        let configs = configs.map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or_default()));
        text.push_str(&format!("Configs: {}\n", configs.collect::<Vec<_>>().join("  ")));
    }
    let mut table = Table::new(&[
        "PARTITION",
        "LEADER",
        "REPLICAS",
        "ISR",
        "OFFLINE",
        "START-OFFSET",
        "END-OFFSET",
    ]);
    let number = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
    for partition in &topic.partitions {
        table.row([
            partition.partition.to_string(),
            partition
                .leader
                .map_or_else(|| "none".to_owned(), |leader| leader.to_string()),
            ids(&partition.replicas),
            ids(&partition.isr),
            ids(&partition.offline),
            number(partition.start_offset),
            number(partition.end_offset),
        ]);
    }
    text.push_str(&table.write());
    text
}

fn ids(ids: &[i32]) -> String {
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}
