//! The chores of this repository: `cargo xtask --help` lists them.

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
#[command(name = "cargo xtask", about = "The chores of this repository")]
enum Chore {
    Client(client::Args),
    /// Write the messages, API keys and error codes anew from Kafka's definitions
    Generate,
    Golden(golden::Args),
    Kafka(kafka::Args),
    Map(map::Args),
    Measure(measure::Args),
    /// Play the coordinators against a lying world, from seeds; `--help` lists the options
    Simulate(pass_on::Args),
    Tidy(tidy::Args),
    /// Move records exactly once while processes and brokers are killed; `--help` lists the options
    Torture(pass_on::Args),
}

fn main() -> ExitCode {
    let outcome = match Chore::parse() {
        Chore::Client(args) => client::run(&args),
        Chore::Generate => generate::run(root()),
        Chore::Golden(args) => golden::run(&args),
        Chore::Kafka(args) => kafka::run(args),
        Chore::Map(args) => map::run(root(), &args),
        Chore::Measure(args) => measure::run(root(), &args),
        Chore::Simulate(args) => pass_on::simulate(&args),
        Chore::Tidy(args) => tidy::run(root(), &args),
        Chore::Torture(args) => pass_on::torture(&args),
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
