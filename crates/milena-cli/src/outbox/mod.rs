//! `milena outbox`: the relay of the outbox, and its table.

mod clean;
mod list;
mod relay;
mod relay_settings;
mod retry;
mod status;

use anyhow::{Error, Result, anyhow};
use clap::Subcommand;

use crate::connection;
pub(crate) use relay_settings::kafka_arguments;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Publish the events of the outbox to Kafka
    #[command(after_help = relay::HELP)]
    Relay(relay::Arguments),
    /// Show the backlog, the relays and the failed aggregates
    Status(status::Arguments),
    /// List events of the outbox
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Let the relays try failed events again now
    Retry(retry::Arguments),
    /// Delete events that were published
    Clean(clean::Arguments),
}

impl Command {
    /// Whether it runs until it is stopped.
    pub(crate) fn is_server(&self) -> bool {
        matches!(self, Self::Relay(_))
    }
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Relay(arguments) => relay::run(arguments),
        Command::Status(arguments) => connection::run(status::status(arguments)),
        Command::List(arguments) => connection::run(list::list(arguments)),
        Command::Retry(arguments) => connection::run(retry::retry(arguments)),
        Command::Clean(arguments) => connection::run(clean::clean(arguments)),
    }
}

/// The error of a statement, with the remedy for missing tables.
fn explain(error: milena_sql::sqlx::Error) -> Error {
    let code = error
        .as_database_error()
        .and_then(|error| error.code().map(String::from));
    match code.as_deref() {
        Some("42P01") => anyhow!("the tables of the outbox are missing; create them with milena sql init"),
        Some("1") if error.to_string().contains("no such table") => {
            anyhow!("the tables of the outbox are missing; create them with milena sql init")
        }
        _ => error.into(),
    }
}
