//! The outbox while writers, relays, the database and brokers are killed. Afterwards, `psql` and `kcat` show that table
//! and topic agree: every committed order is announced, in order within its aggregate, and no other.
//!
//! Run it with `cargo xtask outbox --minutes 5`; CONTRIBUTING.md lists the requirements.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

#[path = "../torture/any_cluster.rs"]
mod any_cluster;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
#[path = "../../../milena-client/tests/outside/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of the client")]
mod cluster;
mod oracle;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod process;
mod processes;
#[path = "../outside/programs.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod programs;
#[path = "../torture/random.rs"]
mod random;
mod round;
mod writer;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use any_cluster::Kind;

/// Publish events of an outbox while writers, relays, the database and brokers are killed
#[derive(Parser)]
#[command(name = "cargo xtask outbox")]
struct Arguments {
    /// Minutes per kind of broker
    #[arg(long, value_name = "N", default_value_t = 0.3)]
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
    // The writer processes run this binary too.
    if words.nth(1).as_deref() == Some(writer::ROLE) {
        return writer::main(&words.collect::<Vec<_>>());
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
