//! `milena cluster info`: id, brokers, controller and features of a cluster.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;

use crate::{
    connection::{self, ConnectionArguments},
    output::{OutputArguments, Table},
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show the cluster's id, its brokers, its controller and its finalized features
    Info(Arguments),
}

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    connection: ConnectionArguments,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Serialize)]
struct Info {
    cluster_id: Option<String>,
    controller: Option<i32>,
    brokers: Vec<Broker>,
    topic_count: usize,
    partition_count: usize,
    /// The finalized level of each feature.
    features: BTreeMap<String, i16>,
}

#[derive(Serialize)]
struct Broker {
    id: i32,
    host: String,
    port: u16,
    rack: Option<String>,
    controller: bool,
    fenced: bool,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Info(arguments) => connection::run(info(arguments)),
    }
}

async fn info(arguments: &Arguments) -> Result<()> {
    let admin = arguments.connection.admin().await?;
    let described = admin.describe_cluster().await?;
    let topics = admin.list_topics().await?;
    // A broker that is too old for features has none.
    let features = admin.describe_features().await.unwrap_or_default();
    let controller = described.controller.map(|node| node.id);
    let brokers = described.brokers.into_iter().map(|broker| Broker {
        id: broker.node.id,
        host: broker.node.host.to_string(),
        port: broker.node.port,
        rack: broker.node.rack.map(|rack| rack.to_string()),
        controller: controller == Some(broker.node.id),
        fenced: broker.fenced,
    });
    let finalized = features.finalized.into_iter();
    let info = Info {
        cluster_id: described.cluster_id.map(|id| id.to_string()),
        controller,
        brokers: brokers.collect(),
        topic_count: topics.len(),
        partition_count: topics.values().map(|topic| topic.partitions).sum(),
        features: finalized.map(|(name, levels)| (name.to_string(), levels.max)).collect(),
    };
    arguments.output.print(&info, || text(&info))
}

fn text(info: &Info) -> String {
    let mut text = format!(
        "ClusterId: {}  Topics: {}  Partitions: {}\n\n",
        info.cluster_id.as_deref().unwrap_or("-"),
        info.topic_count,
        info.partition_count
    );
    let mut brokers = Table::new(&["ID", "HOST", "PORT", "RACK", "CONTROLLER", "STATE"]);
    for broker in &info.brokers {
        brokers.row([
            broker.id.to_string(),
            broker.host.clone(),
            broker.port.to_string(),
            broker.rack.clone().unwrap_or_default(),
            if broker.controller { "yes" } else { "no" }.to_owned(),
            if broker.fenced { "fenced" } else { "serving" }.to_owned(),
        ]);
    }
    text.push_str(&brokers.write());
    if !info.features.is_empty() {
        let mut features = Table::new(&["FEATURE", "FINALIZED-VERSION"]);
        for (name, version) in &info.features {
            features.row([name.clone(), version.to_string()]);
        }
        text.push('\n');
        text.push_str(&features.write());
    }
    text
}
