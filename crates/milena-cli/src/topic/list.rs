//! `milena topic list`.

use anyhow::Result;
use serde::Serialize;

use crate::{admin_arguments::AdminArguments, output::Table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Include internal topics such as __consumer_offsets
    #[arg(short, long)]
    internal: bool,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct TopicRow {
    topic: String,
    topic_id: Option<String>,
    internal: bool,
    partition_count: usize,
    replication_factor: usize,
}

pub(super) async fn list(arguments: &Arguments) -> Result<()> {
    let admin = arguments.common.connection.admin().await?;
    let topics = admin.list_topics().await?.into_iter();
    let topics = topics.filter(|(_, topic)| arguments.internal || !topic.internal);
    let topics: Vec<TopicRow> = topics
        .map(|(name, topic)| TopicRow {
            topic: name.to_string(),
            topic_id: topic.id.map(|id| id.to_string()),
            internal: topic.internal,
            partition_count: topic.partitions,
            replication_factor: topic.replication_factor,
        })
        .collect();
    arguments.common.output.print(&topics, || {
        let mut table = Table::new(&["TOPIC", "PARTITION-COUNT", "REPLICATION-FACTOR"]);
        for topic in &topics {
            let counts = (topic.partition_count.to_string(), topic.replication_factor.to_string());
            table.row([topic.topic.clone(), counts.0, counts.1]);
        }
        table.write()
    })
}
