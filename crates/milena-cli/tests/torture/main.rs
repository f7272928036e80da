//! Exactly once, for real: processes copy records from topic to topic in transactions while they are killed, stopped and
//! paused, and while brokers are killed. A checker sees the effect of every record once and in order.
//!
//! `cargo xtask torture --minutes 5`; CONTRIBUTING.md says what must be installed.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod checker;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
#[path = "../../../milena-client/tests/outside/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of the client")]
mod cluster;
mod copier;
mod crew;
mod dice;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod process;
#[path = "../outside/programs.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod programs;
mod round;
mod topics;
mod world;
mod writer;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use world::Kind;

/// Move records exactly once while processes and brokers are killed
#[derive(Parser)]
#[command(name = "cargo xtask torture")]
struct Arguments {
    /// How long, for each kind of broker
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    minutes: f64,
    /// How many brokers Apache Kafka has
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    brokers: u16,
    /// One kind of broker only
    #[arg(long)]
    on: Option<Kind>,
    /// What chance begins with; another one each time, unless given
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let mut words = std::env::args();
    // A process of the crew is this program too.
    if words.nth(1).as_deref() == Some(copier::WORD) {
        return copier::main(&words.collect::<Vec<_>>());
    }
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(dice::any_seed);
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
