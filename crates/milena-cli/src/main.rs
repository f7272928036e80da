//! The binary `milena`: parses arguments, runs a command, sets the exit code. Testable logic belongs to the other
//! crates.

mod acl;
mod admin_arguments;
mod broker;
mod cert;
mod cluster;
mod completion;
mod config;
mod connection;
mod consume;
mod database;
mod doctor;
mod first_contact;
mod group;
mod log;
mod log_levels;
mod man;
mod outbox;
mod output;
mod perf;
mod produce;
mod protocol;
mod quota;
mod run;
mod saga;
mod secret;
mod signals;
mod sql;
mod time;
mod topic;
mod txn;
mod up;
mod user;

use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory as _, Parser, Subcommand};
use log_levels::LogControl;
use tracing_subscriber::filter::LevelFilter;

/// A help template that fits on a terminal of 24 lines.
const TEMPLATE: &str = "\
{about}
{usage-heading} {usage}

{subcommands}
More: protocol (APIs and error codes), completion (of shells), man (pages)
Options: -v and -q set the log level, --log-format json, -h help, -V version";

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
    /// Start a durable broker on this machine, without any setup
    Up(up::Arguments),
    /// Run a broker: one node, durable, for any Kafka client
    Broker(broker::Arguments),
    /// Run an application whose handlers are programs or HTTP services
    #[command(after_help = run::HELP)]
    Run(run::Arguments),
    /// Print records, with or without a consumer group
    #[command(after_help = consume::HELP)]
    Consume(consume::Arguments),
    /// Send lines of a file or of stdin as records
    #[command(after_help = produce::HELP)]
    Produce(produce::Arguments),
    /// List, describe, create, delete, alter and trim topics
    #[command(subcommand, alias = "topics")]
    Topic(topic::Command),
    /// List, describe, reset and delete consumer groups
    #[command(subcommand, alias = "groups")]
    Group(group::Command),
    /// Show brokers, controller and features of a cluster
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Show and alter configs of topics, brokers and groups
    #[command(subcommand, alias = "configs")]
    Config(config::Command),
    /// List, describe and abort transactions
    #[command(subcommand)]
    Txn(txn::Command),
    /// List, create and delete ACLs: who may do what
    #[command(subcommand, alias = "acls")]
    Acl(acl::Command),
    /// List, create and delete users that log in with SCRAM
    #[command(subcommand, alias = "users")]
    User(user::Command),
    /// List and alter quotas of users, client ids and addresses
    #[command(subcommand, alias = "quotas")]
    Quota(quota::Command),
    /// Publish the events of a database, show and clean its outbox
    #[command(subcommand)]
    Outbox(outbox::Command),
    /// Create and show the tables of Milena in a database
    #[command(subcommand)]
    Sql(sql::Command),
    /// List, show, retry, compensate and close sagas
    #[command(subcommand, alias = "sagas")]
    Saga(saga::Command),
    /// Write certificates for development, and print their settings
    #[command(after_help = cert::HELP)]
    Cert(cert::Arguments),
    /// Measure throughput and latency of a cluster
    #[command(subcommand)]
    Perf(perf::Command),
    /// Check a data directory for damage without starting a broker
    #[command(after_help = doctor::HELP)]
    Doctor(doctor::Arguments),
    /// Show APIs, error codes and batches of a segment file
    #[command(subcommand, hide = true)]
    Protocol(protocol::Command),
    /// Print a shell completion script
    #[command(after_help = completion::HELP, hide = true)]
    Completion(completion::Arguments),
    /// Write manual pages
    #[command(after_help = man::HELP, hide = true)]
    Man(man::Arguments),
}

impl Command {
    /// The default log level: INFO for servers, WARN for commands that print a result.
    fn level(&self) -> LevelFilter {
        match self {
            Self::Up(_) | Self::Broker(_) | Self::Run(_) => LevelFilter::INFO,
            Self::Outbox(command) if command.is_server() => LevelFilter::INFO,
            _ => LevelFilter::WARN,
        }
    }

    fn run(&self, levels: LogControl) -> Result<()> {
        match self {
            Self::Up(arguments) => up::run(arguments, levels),
            Self::Broker(arguments) => broker::run(arguments, levels),
            Self::Run(arguments) => run::run(arguments),
            Self::Consume(arguments) => consume::run(arguments),
            Self::Produce(arguments) => produce::run(arguments),
            Self::Topic(command) => topic::run(command),
            Self::Group(command) => group::run(command),
            Self::Cluster(command) => cluster::run(command),
            Self::Config(command) => config::run(command),
            Self::Txn(command) => txn::run(command),
            Self::Acl(command) => acl::run(command),
            Self::User(command) => user::run(command),
            Self::Quota(command) => quota::run(command),
            Self::Outbox(command) => outbox::run(command),
            Self::Sql(command) => sql::run(command),
            Self::Saga(command) => saga::run(command),
            Self::Cert(arguments) => cert::run(arguments),
            Self::Perf(command) => perf::run(command),
            Self::Doctor(arguments) => doctor::run(arguments),
            Self::Protocol(command) => protocol::run(command),
            Self::Completion(arguments) => completion::run(arguments),
            Self::Man(arguments) => man::run(arguments),
        }
    }
}

/// The command line with the commands that the help mentions only in its last lines.
fn full_command_line() -> clap::Command {
    Arguments::command().mut_subcommands(|command| command.hide(false))
}

fn main() -> ExitCode {
    let Arguments { command, log } = Arguments::parse();
    match log.init(command.level()).and_then(|levels| command.run(levels)) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of our stdout has exited, as `head` does: not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("milena: {}", text(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error and its causes, without causes that the text before them contains already.
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
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_cause_is_printed_once() {
        let error = anyhow::anyhow!("in use")
            .context("cannot listen: in use")
            .context("broker");
        assert_eq!(text(&error), "broker: cannot listen: in use");
    }
}
