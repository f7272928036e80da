//! `milena topic`: looks after topics.

mod add_partitions;
mod alter_config;
mod create;
mod delete;
mod describe;
mod list;
mod skew;
mod trim;

use anyhow::{Result, ensure};
use clap::Subcommand;

use crate::connection;

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
    Delete(delete::Arguments),
    /// Add partitions to a topic; records that are there stay where they are
    AddPartitions(add_partitions::Arguments),
    /// Change settings of topics; those that are not named stay as they are
    #[command(after_help = alter_config::HELP)]
    AlterConfig(alter_config::Arguments),
    /// Delete the oldest records of a topic, up to an offset or a time
    #[command(after_help = trim::HELP)]
    Trim(trim::Arguments),
    /// Show how unevenly records, bytes and keys lie in the partitions of a topic
    #[command(after_help = skew::HELP)]
    Skew(skew::Arguments),
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

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => connection::run(list::list(arguments)),
        Command::Describe(arguments) => connection::run(describe::describe(arguments)),
        Command::Create(arguments) => connection::run(create::create(arguments)),
        Command::Delete(arguments) => connection::run(delete::delete(arguments)),
        Command::AddPartitions(arguments) => connection::run(add_partitions::add(arguments)),
        Command::AlterConfig(arguments) => connection::run(alter_config::alter(arguments)),
        Command::Trim(arguments) => connection::run(trim::trim(arguments)),
        Command::Skew(arguments) => connection::run(skew::show_skew(arguments)),
    }
}
