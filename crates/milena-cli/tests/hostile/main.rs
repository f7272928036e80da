//! Hostile clients against `milena broker`, beside a client that behaves: damaged frames on every API, half frames, slow
//! senders, clients that never read, thousands of connections, decompression bombs, floods of log-ins, garbage instead of TLS.
//!
//! The broker must not panic, must stay within its memory, and must serve the other client correctly. Run it with
//! `cargo xtask hostile`; CONTRIBUTING.md has examples.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod attack;
mod bombs;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
mod crowd;
mod frames;
mod log_ins;
#[path = "../torture/random.rs"]
#[allow(dead_code, reason = "shared with the torture")]
mod random;
mod round;
mod subject;
#[path = "../../../milena-broker/tests/it/tls_client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod tls_client;
mod tls_garbage;
#[path = "../../../milena-wire/tests/it/vectors.rs"]
#[allow(dead_code, reason = "shared with the tests of the wire")]
mod vectors;
mod witness;

use std::process::ExitCode;

use clap::Parser;

/// Attack a broker with frames that no client sends, and watch it serve another client
#[derive(Parser, Clone)]
#[command(name = "cargo xtask hostile")]
pub struct Arguments {
    /// Frames to send
    #[arg(long, value_name = "N", default_value_t = 200_000, overrides_with = "frames")]
    frames: u64,
    /// Give up after this many minutes, with fewer frames
    #[arg(long, value_name = "N")]
    minutes: Option<f64>,
    /// Connections that are opened and kept
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    connections: usize,
    /// Seed of the frames [default: a new one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Measure the other client before the attack too, and fail if it keeps less than 80 % of its throughput
    #[arg(long)]
    compare: bool,
}

fn main() -> ExitCode {
    let mut words = std::env::args();
    // The attackers are a process of their own, which runs this binary too.
    if words.nth(1).as_deref() == Some(attack::ROLE) {
        return attack::main(&words.collect::<Vec<_>>());
    }
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(random::any_seed);
    println!("hostile clients; seed {seed}");
    match round::run(&arguments, seed) {
        Ok(figures) => {
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            println!("FAILED: {problem}; repeat it with --seed {seed}");
            ExitCode::FAILURE
        }
    }
}
