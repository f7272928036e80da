//! The binary `milena`: arguments in, exit code out. What is worth testing on its own lives in the other crates.

mod app;
mod broker;
mod cluster;
mod consume;
mod doctor;
mod group;
mod info;
mod output;
mod perf;
mod produce;
mod protocol;
mod signals;
mod topic;
mod txn;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "milena",
    version,
    about = "The reader's side of Apache Kafka",
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start everything on this machine, on a durable directory of your user
    Up(broker::UpArguments),
    /// Run a broker: one node, durable, for Kafka's own clients
    Broker(broker::Arguments),
    /// Run an application that a file declares, with handlers that are programs or services
    #[command(after_help = app::HELP)]
    Run(app::Arguments),
    /// Print the records of a topic, alone or as a member of a group
    #[command(after_help = consume::HELP)]
    Consume(consume::Arguments),
    /// Send lines of a file or of standard input as records
    #[command(after_help = produce::HELP)]
    Produce(produce::Arguments),
    /// Look after topics: list, describe, create, delete, add partitions, change settings, delete records, see their skew
    #[command(subcommand, visible_alias = "topics")]
    Topic(topic::Command),
    /// Look after groups: list, describe, see members, move to another offset, delete
    #[command(subcommand, visible_alias = "groups")]
    Group(group::Command),
    /// Look at a cluster
    #[command(subcommand)]
    Cluster(info::Command),
    /// Look after transactions: list, describe, abort
    #[command(subcommand)]
    Txn(txn::Command),
    /// Measure how fast a cluster can be read and written, and how soon what is written is read
    #[command(subcommand)]
    Perf(perf::Command),
    /// Check a data directory for damage, without starting a broker
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Arguments),
    /// Look things up in Kafka's wire protocol, and into files that hold it
    #[command(subcommand)]
    Protocol(protocol::Command),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Up(arguments) => broker::up(arguments),
        Command::Broker(arguments) => broker::run(arguments),
        Command::Run(arguments) => app::run(&arguments),
        Command::Consume(arguments) => consume::run(&arguments),
        Command::Produce(arguments) => produce::run(&arguments),
        Command::Topic(command) => topic::run(&command),
        Command::Group(command) => group::run(&command),
        Command::Cluster(command) => info::run(&command),
        Command::Txn(command) => txn::run(&command),
        Command::Perf(command) => perf::run(&command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Protocol(command) => protocol::run(&command),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough, as `head` does: not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("milena: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}
