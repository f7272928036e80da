//! `milena txn`: transactions.

mod abort;
mod describe;
mod list;

use anyhow::Result;
use clap::Subcommand;

use crate::connection;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List transactional ids and their states
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Show transactions and their partitions
    Describe(describe::Arguments),
    /// Abort a transaction that its producer will not end
    #[command(after_help = abort::HELP)]
    Abort(abort::Arguments),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => connection::run(list::list(arguments)),
        Command::Describe(arguments) => connection::run(describe::describe(arguments)),
        Command::Abort(arguments) => connection::run(abort::abort(arguments)),
    }
}
