//! Exactly-once copies between topics while processes are killed, stopped and paused and brokers are killed. A checker
//! sees the effect of every record once and in order.
//!
//! Run it with `cargo xtask torture --minutes 5`; CONTRIBUTING.md lists the requirements.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod any_cluster;
mod checker;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
#[path = "../../../milena-client/tests/outside/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of the client")]
mod cluster;
mod copier;
mod copiers;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod process;
#[path = "../outside/programs.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod programs;
mod random;
mod round;
mod topics;
mod writer;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use any_cluster::Kind;

/// Move records exactly once while processes and brokers are killed
#[derive(Parser)]
#[command(name = "cargo xtask torture")]
struct Arguments {
    /// Minutes per kind of broker
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    minutes: f64,
    /// Number of brokers of Apache Kafka
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    brokers: u16,
    /// Only this kind of broker
    #[arg(long)]
    on: Option<Kind>,
    /// Seed of the fault schedule [default: a new one each time]
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let mut words = std::env::args();
    // The copier processes run this binary too.
    if words.nth(1).as_deref() == Some(copier::ROLE) {
        return copier::main(&words.collect::<Vec<_>>());
    }
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(random::any_seed);
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    for kind in [Kind::Milena, Kind::Kafka] {
        if arguments.on.is_some_and(|on| on != kind) {
            continue;
        }
        let name = match kind {
            Kind::Milena => "Milena's broker".to_owned(),
            Kind::Kafka => format!("Apache Kafka, brokers: {}", arguments.brokers),
        };
        println!("{name}; seed {seed}");
        match round::run(kind, arguments.brokers, time, seed) {
            Ok(figures) => println!("{figures}"),
            Err(problem) => {
                println!("FAILED: {problem}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
