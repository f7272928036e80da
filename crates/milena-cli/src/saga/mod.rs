//! `milena saga`: sagas in the database of a service.

mod change;
mod check;
mod list;
mod rows;
mod show;

use anyhow::Result;
use clap::Subcommand;
use milena_sql::saga::command::CommandKind;

use crate::connection;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List sagas that have not ended
    #[command(visible_alias = "ls", after_help = list::HELP)]
    List(list::Arguments),
    /// Show a saga: its steps, timers and audit trail
    #[command(visible_alias = "describe")]
    Show(show::Arguments),
    /// Redeliver triggers and ask again for compensations
    #[command(after_help = change::HELP)]
    Retry(change::Arguments),
    /// Cancel a saga: its steps are compensated
    #[command(after_help = change::HELP)]
    Compensate(change::Arguments),
    /// End a saga as it is
    #[command(after_help = change::HELP)]
    Close(change::Arguments),
    /// Check a file with definitions, and print them as a diagram
    Check(check::Arguments),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => connection::run(list::list(arguments)),
        Command::Show(arguments) => connection::run(show::show(arguments)),
        Command::Retry(arguments) => connection::run(change::change(arguments, CommandKind::Retry)),
        Command::Compensate(arguments) => connection::run(change::change(arguments, CommandKind::Compensate)),
        Command::Close(arguments) => connection::run(change::change(arguments, CommandKind::Close)),
        Command::Check(arguments) => check::check(arguments),
    }
}
