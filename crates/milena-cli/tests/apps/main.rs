//! Applications as users run them: processes join, leave and are killed under load, brokers die, dead letters cannot be
//! written, records are read again. Runs on Milena's broker and on an Apache Kafka of three.
//!
//! Run it with `cargo test -p milena-cli --features outside --test apps`; CONTRIBUTING.md lists the requirements.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod again;
#[path = "../torture/any_cluster.rs"]
#[allow(dead_code, reason = "shared with the torture")]
mod any_cluster;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
#[path = "../../../milena-client/tests/outside/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of the client")]
mod cluster;
mod crash;
mod crash_loop;
mod environment;
mod exactly_once;
mod hand_over;
mod handled_log;
mod load;
mod outage;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod process;
#[path = "../outside/programs.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod programs;
mod worker;
mod workers;

use std::time::Instant;

use clap::Parser;

use any_cluster::{AnyCluster, Kind};
use environment::Environment;

/// The number of brokers of Apache Kafka.
const BROKERS: u16 = 3;
const TESTS: [&str; 6] = ["hand-over", "crash", "crash-loop", "outage", "again", "exactly-once"];

/// Handle records while processes and brokers come and go
#[derive(Parser)]
struct Arguments {
    /// Only these tests
    #[arg(value_parser = TESTS)]
    tests: Vec<String>,
    /// Only this kind of broker
    #[arg(long)]
    on: Option<Kind>,
}

fn main() {
    let mut words = std::env::args();
    // The worker processes run this binary too.
    if words.nth(1).as_deref() == Some(worker::ROLE) {
        return worker::main(&words.collect::<Vec<_>>());
    }
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for kind in [Kind::Milena, Kind::Kafka] {
        if arguments.on.is_some_and(|on| on != kind) {
            continue;
        }
        let env = Environment::new(AnyCluster::start(kind, BROKERS));
        for test in TESTS {
            if !arguments.tests.is_empty() && !arguments.tests.iter().any(|wanted| wanted == test) {
                continue;
            }
            let began = Instant::now();
            let told = runtime.block_on(async {
                match test {
                    "hand-over" => hand_over::run(&env).await,
                    "crash" => crash::run(&env).await,
                    "crash-loop" => crash_loop::run(&env).await,
                    "outage" => outage::run(&env).await,
                    "again" => again::run(&env).await,
                    _ => exactly_once::run(&env).await,
                }
            });
            println!("{kind:?}, {test}: {told} ({:.1} s)", began.elapsed().as_secs_f64());
        }
    }
}
