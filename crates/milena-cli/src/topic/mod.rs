//! `milena topic`: looks after topics.

mod alter;
mod create;
mod describe;
mod list;
mod skew;
mod trim;

use anyhow::{Result, ensure};
use clap::Subcommand;

use crate::{
    cluster::{self, ClusterArguments},
    output::{OutputArguments, print_outcomes},
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List all topics
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Show the partitions of topics, and the settings that are not the default
    Describe(describe::Arguments),
    /// Create topics
    #[command(after_help = create::HELP)]
    Create(create::Arguments),
    /// Delete topics, with all of their records
    Delete(DeleteArguments),
    /// Add partitions to a topic; records that are there stay where they are
    AddPartitions(create::AddArguments),
    /// Change settings of topics; those that are not named stay as they are
    #[command(after_help = alter::HELP)]
    AlterConfig(alter::Arguments),
    /// Delete the oldest records of a topic, up to an offset or a time
    #[command(after_help = trim::HELP)]
    Trim(trim::Arguments),
    /// Show how unevenly records, bytes and keys lie in the partitions of a topic
    #[command(after_help = skew::HELP)]
    Skew(skew::Arguments),
}

/// What every command here needs.
#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// One or more topics.
#[derive(clap::Args)]
struct Topics {
    /// The topics
    #[arg(value_name = "TOPIC")]
    names: Vec<String>,
    /// The same as TOPIC; may be repeated
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
}

impl Topics {
    fn names(&self) -> Result<Vec<String>> {
        let names: Vec<String> = self.names.iter().chain(&self.topics).cloned().collect();
        ensure!(
            !names.is_empty(),
            "name a topic; `milena topic list` shows which there are"
        );
        Ok(names)
    }
}

#[derive(clap::Args)]
pub(crate) struct DeleteArguments {
    #[command(flatten)]
    topics: Topics,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => cluster::run(list::list(arguments)),
        Command::Describe(arguments) => cluster::run(describe::describe(arguments)),
        Command::Create(arguments) => cluster::run(create::create(arguments)),
        Command::Delete(arguments) => cluster::run(delete(arguments)),
        Command::AddPartitions(arguments) => cluster::run(create::add_partitions(arguments)),
        Command::AlterConfig(arguments) => cluster::run(alter::alter(arguments)),
        Command::Trim(arguments) => cluster::run(trim::trim(arguments)),
        Command::Skew(arguments) => cluster::run(skew::show_skew(arguments)),
    }
}

async fn delete(arguments: &DeleteArguments) -> Result<()> {
    let names = arguments.topics.names()?;
    let admin = cluster::admin(&arguments.common.cluster).await?;
    let deleted = admin.delete_topics(names).await;
    print_outcomes(&arguments.common.output, deleted, |name, ()| format!("deleted {name}"))
}

/// Takes `KEY=VALUE` apart.
fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("it must be KEY=VALUE, as in retention.ms=86400000".to_owned()),
    }
}
