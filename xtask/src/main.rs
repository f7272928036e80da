//! The developer commands of this repository: `cargo xtask --help` lists them.

mod cache;
mod client;
mod generate;
mod golden;
mod kafka;
mod map;
mod measure;
mod pass_on;
mod source;
mod tidy;

use std::{path::Path, process::ExitCode};

use clap::Parser;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer commands of this repository")]
enum Task {
    Client(client::Args),
    /// Generate messages, API keys and error codes from Kafka's definitions
    Generate,
    Golden(golden::Args),
    /// Attack the broker with damaged frames, floods and bombs, beside a client that behaves; `--help` lists the options
    Hostile(pass_on::Args),
    Kafka(kafka::Args),
    Map(map::Args),
    Measure(measure::Args),
    /// Publish events of an outbox while writers, relays, the database and brokers are killed; `--help` lists the options
    Outbox(pass_on::Args),
    /// Run sagas while services, relays, databases and brokers are killed; `--help` lists the options
    Sagas(pass_on::Args),
    /// Run the coordinators in a simulated, faulty network, from seeds; `--help` lists the options
    Simulate(pass_on::Args),
    Tidy(tidy::Args),
    /// Move records exactly once while processes and brokers are killed; `--help` lists the options
    Torture(pass_on::Args),
}

fn main() -> ExitCode {
    let outcome = match Task::parse() {
        Task::Client(args) => client::run(&args),
        Task::Generate => generate::run(root()),
        Task::Golden(args) => golden::run(&args),
        Task::Hostile(args) => pass_on::hostile(&args),
        Task::Kafka(args) => kafka::run(args),
        Task::Map(args) => map::run(root(), &args),
        Task::Measure(args) => measure::run(root(), &args),
        Task::Outbox(args) => pass_on::outbox(&args),
        Task::Sagas(args) => pass_on::sagas(&args),
        Task::Simulate(args) => pass_on::simulate(&args),
        Task::Tidy(args) => tidy::run(root(), &args),
        Task::Torture(args) => pass_on::torture(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository.
fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}
