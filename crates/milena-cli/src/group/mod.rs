//! `milena group`: consumer groups.

mod delete;
mod delete_offsets;
mod describe;
mod groups;
mod list;
mod members;
mod reset;
mod scope;

use anyhow::{Result, bail};
use clap::Subcommand;

use crate::connection;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List groups
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Show offsets and lag of groups, and the owner of each partition
    Describe(describe::Arguments),
    /// Show the members of groups and their partitions
    Members(members::Arguments),
    /// Set offsets of groups without members; a dry run without --execute
    #[command(after_help = reset::HELP)]
    Reset(reset::Arguments),
    /// Delete committed offsets of a group
    #[command(after_help = delete_offsets::HELP)]
    DeleteOffsets(delete_offsets::Arguments),
    /// Delete groups without members, and their committed offsets
    Delete(delete::Arguments),
    /// Catches the name of `reset` in rpk.
    #[command(hide = true)]
    Seek(SeekArguments),
}

#[derive(clap::Args)]
pub(crate) struct SeekArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _rest: Vec<String>,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => connection::run(list::list(arguments)),
        Command::Describe(arguments) => connection::run(describe::describe(arguments)),
        Command::Members(arguments) => connection::run(members::members(arguments)),
        Command::Reset(arguments) => connection::run(reset::reset(arguments)),
        Command::DeleteOffsets(arguments) => connection::run(delete_offsets::delete(arguments)),
        Command::Delete(arguments) => connection::run(delete::delete(arguments)),
        Command::Seek(_) => {
            bail!("use `milena group reset GROUP --to WHERE`; it is a dry run, add --execute to commit the offsets")
        }
    }
}
