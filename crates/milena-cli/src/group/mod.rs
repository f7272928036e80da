//! `milena group`: looks after groups.

mod describe;
mod list;
mod members;
mod seek;

use anyhow::{Result, ensure};
use clap::Subcommand;

use crate::{
    cluster::{self, ClusterArguments},
    output::{OutputArguments, print_outcomes},
};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List all groups
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Show how far groups have read, and who reads what
    Describe(describe::Arguments),
    /// Show the members of groups and their partitions
    Members(members::Arguments),
    /// Move a group without members to another place
    #[command(after_help = seek::HELP)]
    Seek(seek::Arguments),
    /// Delete groups without members, with their committed offsets
    Delete(DeleteArguments),
}

/// What every command here needs.
#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// One or more groups.
#[derive(clap::Args)]
struct Groups {
    /// The groups
    #[arg(value_name = "GROUP")]
    names: Vec<String>,
    /// The same as GROUP; may be repeated
    #[arg(short, long = "group", value_name = "GROUP")]
    groups: Vec<String>,
}

impl Groups {
    fn names(&self) -> Result<Vec<String>> {
        let names: Vec<String> = self.names.iter().chain(&self.groups).cloned().collect();
        ensure!(
            !names.is_empty(),
            "name a group; `milena group list` shows which there are"
        );
        Ok(names)
    }
}

#[derive(clap::Args)]
pub(crate) struct DeleteArguments {
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => cluster::run(list::list(arguments)),
        Command::Describe(arguments) => cluster::run(describe::describe(arguments)),
        Command::Members(arguments) => cluster::run(members::members(arguments)),
        Command::Seek(arguments) => cluster::run(seek::seek(arguments)),
        Command::Delete(arguments) => cluster::run(delete(arguments)),
    }
}

async fn delete(arguments: &DeleteArguments) -> Result<()> {
    let names = arguments.groups.names()?;
    let admin = cluster::admin(&arguments.common.cluster).await?;
    let deleted = admin.delete_groups(names).await;
    print_outcomes(&arguments.common.output, deleted, |name, ()| format!("deleted {name}"))
}
