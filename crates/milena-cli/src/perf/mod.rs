//! `milena perf`: measurements of a cluster.

mod consume;
mod latency;
mod produce;
mod usage;

use anyhow::Result;
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Read records as fast as possible and print one line of JSON
    #[command(after_help = consume::HELP)]
    Consume(consume::Arguments),
    /// Send records as fast as possible and print one line of JSON
    #[command(after_help = produce::HELP)]
    Produce(produce::Arguments),
    /// Send and read one record at a time and print one line of JSON
    #[command(after_help = latency::HELP)]
    Latency(latency::Arguments),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Consume(arguments) => consume::run(arguments),
        Command::Produce(arguments) => produce::run(arguments),
        Command::Latency(arguments) => latency::run(arguments),
    }
}
