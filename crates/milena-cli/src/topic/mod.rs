//! `milena topic`: topics.

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
    /// List topics
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Show partitions and configs of topics
    Describe(describe::Arguments),
    /// Create topics
    #[command(after_help = create::HELP)]
    Create(create::Arguments),
    /// Delete topics and their records
    Delete(delete::Arguments),
    /// Add partitions to a topic; existing records keep their partition
    AddPartitions(add_partitions::Arguments),
    /// Change topic configs; others keep their values
    #[command(after_help = alter_config::HELP)]
    AlterConfig(alter_config::Arguments),
    /// Delete the oldest records of a topic, up to an offset or a timestamp
    #[command(after_help = trim::HELP)]
    Trim(trim::Arguments),
    /// Show how unevenly records, bytes and keys are distributed over partitions
    #[command(after_help = skew::HELP)]
    Skew(skew::Arguments),
}

/// One or more topics.
#[derive(clap::Args)]
struct Topics {
    /// Topics
    #[arg(value_name = "TOPIC")]
    names: Vec<String>,
    /// Same as TOPIC; may be repeated
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
}

impl Topics {
    fn names(&self) -> Result<Vec<String>> {
        let names: Vec<String> = self.names.iter().chain(&self.topics).cloned().collect();
        ensure!(!names.is_empty(), "no topic given; `milena topic list` lists them");
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
