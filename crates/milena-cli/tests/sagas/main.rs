//! Sagas of four services while services, relays, databases and brokers are killed. Afterwards `psql` or `sqlite3`, and
//! `kcat`, show that every order is completed or cancelled, that every effect happened at most once, and that completed
//! orders have all effects and cancelled ones none.
//!
//! Run it with `cargo xtask sagas --minutes 5`; CONTRIBUTING.md lists the requirements.

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
mod databases;
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
mod service;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

use any_cluster::Kind;
use databases::DatabaseKind;

/// Run sagas while services, relays, databases and brokers are killed
#[derive(Parser)]
#[command(name = "cargo xtask sagas")]
struct Arguments {
    /// Minutes per kind of broker and of database
    #[arg(long, value_name = "N", default_value_t = 0.3)]
    minutes: f64,
    /// Number of brokers of Apache Kafka
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    brokers: u16,
    /// Only this kind of broker
    #[arg(long)]
    on: Option<Kind>,
    /// Only this kind of database
    #[arg(long)]
    database: Option<DatabaseKind>,
    /// Seed of the fault schedule [default: a new one each time]
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let mut words = std::env::args();
    // The services run this binary too.
    if words.nth(1).as_deref() == Some(service::ROLE) {
        return service::main(&words.collect::<Vec<_>>());
    }
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(random::any_seed);
    let time = Duration::from_secs_f64(arguments.minutes * 60.0);
    for kind in [Kind::Milena, Kind::Kafka] {
        for database in [DatabaseKind::Postgres, DatabaseKind::Sqlite] {
            if arguments.on.is_some_and(|on| on != kind) || arguments.database.is_some_and(|only| only != database) {
                continue;
            }
            println!("{kind:?}, {database:?}; seed {seed}");
            match round::run(kind, arguments.brokers, database, time, seed) {
                Ok(figures) => println!("{figures}"),
                Err(problem) => {
                    println!("FAILED: {problem}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    ExitCode::SUCCESS
}
