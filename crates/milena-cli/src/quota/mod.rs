//! `milena quota`: client quotas.

mod alter;
mod entity;
mod list;

use anyhow::Result;
use clap::Subcommand;

use crate::connection;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List quotas
    #[command(visible_alias = "ls", alias = "describe", after_help = list::HELP)]
    List(list::Arguments),
    /// Set and delete quotas; others keep their values
    #[command(after_help = alter::HELP)]
    Alter(alter::Arguments),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => connection::run(list::list(arguments)),
        Command::Alter(arguments) => connection::run(alter::alter(arguments)),
    }
}
