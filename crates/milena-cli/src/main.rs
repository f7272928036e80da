//! The binary `milena`: arguments in, exit code out. What is worth testing on its own lives in the other crates.

mod app;
mod broker;
mod cluster;
mod common;
mod completion;
mod config;
mod connection;
mod consume;
mod doctor;
mod group;
mod log;
mod log_levels;
mod man;
mod output;
mod perf;
mod produce;
mod protocol;
mod reach;
mod signals;
mod time;
mod topic;
mod txn;
mod up;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use log_levels::LogControl;
use tracing_subscriber::filter::LevelFilter;

/// All commands fit on a terminal of 24 lines.
const TEMPLATE: &str = "\
{about}
{usage-heading} {usage}

{subcommands}

{options}";

#[derive(Parser)]
#[command(
    name = "milena",
    version,
    about = "Apache Kafka's client and broker on one command line",
    arg_required_else_help = true,
    help_template = TEMPLATE,
    disable_help_subcommand = true,
    max_term_width = 100
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: log::LogArguments,
}

#[derive(Subcommand)]
enum Command {
    /// Start a broker for this machine, durable, with nothing to set up
    Up(up::Arguments),
    /// Run a broker: one node, durable, for all Kafka clients
    Broker(broker::Arguments),
    /// Run an application whose handlers are programs or services
    #[command(after_help = app::HELP)]
    Run(app::Arguments),
    /// Print the records of topics, alone or as a member of a group
    #[command(after_help = consume::HELP)]
    Consume(consume::Arguments),
    /// Send lines of a file or of the standard input as records
    #[command(after_help = produce::HELP)]
    Produce(produce::Arguments),
    /// List, describe, create, delete, alter and trim topics
    #[command(subcommand, alias = "topics")]
    Topic(topic::Command),
    /// List, describe, reset and delete consumer groups
    #[command(subcommand, alias = "groups")]
    Group(group::Command),
    /// Show what a cluster is made of
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Show and alter settings of topics, brokers and groups
    #[command(subcommand, alias = "configs")]
    Config(config::Command),
    /// List, describe and abort transactions
    #[command(subcommand)]
    Txn(txn::Command),
    /// Measure how fast a cluster is written and read
    #[command(subcommand)]
    Perf(perf::Command),
    /// Check a data directory for damage, without starting a broker
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Arguments),
    /// Look up APIs, error codes and the batches of a segment file
    #[command(subcommand)]
    Protocol(protocol::Command),
    /// Print the completion script of a shell
    #[command(after_help = completion::HELP)]
    Completion(completion::Arguments),
    /// Write the manual pages
    #[command(after_help = man::HELP)]
    Man(man::Arguments),
}

impl Command {
    /// Servers log their information; commands that a person waits for only warn.
    fn level(&self) -> LevelFilter {
        match self {
            Self::Up(_) | Self::Broker(_) | Self::Run(_) => LevelFilter::INFO,
            _ => LevelFilter::WARN,
        }
    }

    fn run(&self, levels: LogControl) -> Result<()> {
        match self {
            Self::Up(arguments) => up::run(arguments, levels),
            Self::Broker(arguments) => broker::run(arguments, levels),
            Self::Run(arguments) => app::run(arguments),
            Self::Consume(arguments) => consume::run(arguments),
            Self::Produce(arguments) => produce::run(arguments),
            Self::Topic(command) => topic::run(command),
            Self::Group(command) => group::run(command),
            Self::Cluster(command) => cluster::run(command),
            Self::Config(command) => config::run(command),
            Self::Txn(command) => txn::run(command),
            Self::Perf(command) => perf::run(command),
            Self::Doctor(arguments) => doctor::run(arguments),
            Self::Protocol(command) => protocol::run(command),
            Self::Completion(arguments) => completion::run(arguments),
            Self::Man(arguments) => man::run(arguments),
        }
    }
}

fn main() -> ExitCode {
    let Arguments { command, log } = Arguments::parse();
    match log.init(command.level()).and_then(|levels| command.run(levels)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our output has seen enough, as `head` does: not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("milena: {}", text(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes. A cause that the text before it names already is left out.
fn text(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |mut text, cause| {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
        text
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow::anyhow!("in use")
            .context("cannot listen: in use")
            .context("broker");
        assert_eq!(text(&error), "broker: cannot listen: in use");
    }
}
