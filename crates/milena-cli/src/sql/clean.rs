//! `milena sql clean`.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use milena_client::{
    admin::Admin,
    config::{AdminConfig, parse_time},
};
use milena_sql::once::CleanUp;
use serde::Serialize;

use crate::{
    connection::{WAIT, default_bootstrap_servers},
    database::DatabaseArguments,
    first_contact::wait_for_broker,
    outbox::kafka_arguments,
    output::{OutputArguments, counted},
};

pub(crate) const HELP: &str = "\
Examples:
  milena sql clean -d postgres://app@db/shop -b kafka:9092 --group billing
  milena sql clean -d sqlite://shop.db --group billing --keep 45d --topic failed-orders

Events are kept for 30 days, or as long as a topic of the group's handlers keeps
its records: retention.ms and segment.ms of the topics, their retry topics and
dead letter topics. A shorter --keep is refused, because a record that is
delivered again would have its effect twice. So are topics that keep records
for ever, unless --ignore-topic names them.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Consumer group whose processed events are deleted
    #[arg(long, value_name = "GROUP")]
    group: String,
    /// Age at which events are deleted [default: 30d, or the retention of the topics if that is longer]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    keep: Option<Duration>,
    /// Further topic with records of the group's handlers, such as a dead letter topic with a name of its own; may be
    /// repeated
    #[arg(long, value_name = "TOPIC")]
    topic: Vec<String>,
    /// Topic that is not checked, because its old records are never read again; may be repeated
    #[arg(long, value_name = "TOPIC")]
    ignore_topic: Vec<String>,
    /// Bootstrap brokers, separated by commas [env: MILENA_BOOTSTRAP] [default: localhost:9092]
    #[arg(short, long = "bootstrap-server", value_name = "HOST:PORT")]
    #[arg(aliases = ["bootstrap-servers", "bootstrap"])]
    bootstrap: Option<String>,
    /// Client configs under Kafka's names, from a .properties or .toml file
    #[arg(short = 'F', long, value_name = "FILE")]
    command_config: Option<PathBuf>,
    /// One client config under Kafka's name; may be repeated. Secrets only as references
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Serialize)]
struct Report {
    events: u64,
    keep_ms: u64,
    topics: Vec<String>,
}

pub(super) async fn clean(arguments: &Arguments) -> Result<()> {
    let mut clean = CleanUp::new(&arguments.group);
    if let Some(keep) = arguments.keep {
        clean = clean.keep(keep);
    }
    clean = arguments.topic.iter().fold(clean, CleanUp::topic);
    clean = arguments.ignore_topic.iter().fold(clean, CleanUp::ignore_topic);
    let admin = admin(arguments).await?;
    let database = arguments.database.connect().await?;
    let cleaned = clean.clean(&database, &admin).await?;
    database.close().await;
    let report = Report {
        events: cleaned.deleted,
        keep_ms: u64::try_from(cleaned.keep.as_millis()).unwrap_or(u64::MAX),
        topics: cleaned.topics.into_keys().collect(),
    };
    let days = cleaned.keep.as_secs_f64() / 86_400.0;
    arguments.output.print(&report, || {
        let (events, group) = (counted(report.events, "processed event"), &arguments.group);
        format!("deleted {events} of group {group} that were older than {days:.1} days\n")
    })
}

async fn admin(arguments: &Arguments) -> Result<Admin> {
    let (file, bootstrap) = (arguments.command_config.as_deref(), arguments.bootstrap.as_deref());
    let mut map = kafka_arguments(file, bootstrap, &arguments.settings)?;
    if map.get("bootstrap.servers").is_none() {
        let (servers, origin) = default_bootstrap_servers();
        map.set_from("bootstrap.servers", servers, origin);
    }
    let config = AdminConfig::resolve(&map)?;
    wait_for_broker(&config.bootstrap_servers, WAIT).await?;
    Ok(Admin::new(config)?)
}
