//! Applications as their users run them: processes that come, go and are killed under load, brokers that die, dead letters
//! that cannot be written, records that are read again. On Milena's broker, and on an Apache Kafka of three.
//!
//! `cargo test -p milena-cli --features outside --test apps`; CONTRIBUTING.md says what must be installed.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod again;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
#[path = "../../../milena-client/tests/outside/cluster.rs"]
#[allow(dead_code, reason = "shared with the tests of the client")]
mod cluster;
mod crash;
mod crash_loop;
mod crew;
mod exactly_once;
mod hand_over;
mod ledger;
mod load;
mod outage;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod process;
#[path = "../outside/programs.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod programs;
mod stage;
mod worker;
#[path = "../torture/world.rs"]
#[allow(dead_code, reason = "shared with the torture")]
mod world;

use std::time::Instant;

use clap::Parser;

use stage::Stage;
use world::{Kind, World};

/// How many brokers Apache Kafka has.
const BROKERS: u16 = 3;
const TESTS: [&str; 6] = ["hand-over", "crash", "crash-loop", "outage", "again", "exactly-once"];

/// What becomes of records when processes and brokers come and go
#[derive(Parser)]
struct Arguments {
    /// Some tests only
    #[arg(value_parser = TESTS)]
    tests: Vec<String>,
    /// One kind of broker only
    #[arg(long)]
    on: Option<Kind>,
}

fn main() {
    let mut words = std::env::args();
    // A process of an application is this program too.
    if words.nth(1).as_deref() == Some(worker::WORD) {
        return worker::main(&words.collect::<Vec<_>>());
    }
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for kind in [Kind::Milena, Kind::Kafka] {
        if arguments.on.is_some_and(|on| on != kind) {
            continue;
        }
        let stage = Stage::new(World::start(kind, BROKERS));
        for test in TESTS {
            if !arguments.tests.is_empty() && !arguments.tests.iter().any(|wanted| wanted == test) {
                continue;
            }
            let began = Instant::now();
            let told = runtime.block_on(async {
                match test {
                    "hand-over" => hand_over::run(&stage).await,
                    "crash" => crash::run(&stage).await,
                    "crash-loop" => crash_loop::run(&stage).await,
                    "outage" => outage::run(&stage).await,
                    "again" => again::run(&stage).await,
                    _ => exactly_once::run(&stage).await,
                }
            });
            println!("{kind:?}, {test}: {told} ({:.1} s)", began.elapsed().as_secs_f64());
        }
    }
}
