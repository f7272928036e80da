//! `milena perf`: how fast it goes.

mod consume;
mod usage;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Read records as fast as possible and print one line of JSON about it
    #[command(after_help = consume::HELP)]
    Consume(consume::Arguments),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Consume(arguments) => consume::run(arguments),
    }
}
