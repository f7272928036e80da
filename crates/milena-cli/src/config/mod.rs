//! `milena config`: configs of topics, brokers and groups.

mod alter;
mod changes;
mod describe;
mod entity;

use anyhow::Result;
pub(crate) use changes::ChangeArguments;
use clap::Subcommand;

use crate::connection;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show configs that differ from the default, and their sources
    #[command(after_help = describe::HELP)]
    Describe(describe::Arguments),
    /// Change configs; others keep their values
    #[command(after_help = alter::HELP)]
    Alter(alter::Arguments),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Describe(arguments) => connection::run(describe::describe(arguments)),
        Command::Alter(arguments) => connection::run(alter::alter(arguments)),
    }
}

/// Parses `KEY=VALUE`.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE, as in retention.ms=86400000".to_owned()),
    }
}
