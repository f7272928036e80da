//! Milena's bytes, checked by Kafka's own classes and by Kafka's broker.
//!
//! `cargo test -p milena-wire --features outside --test outside`, with Java 17 and Maven installed.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod batches;
mod broker;
mod connection;
#[path = "../it/describe.rs"]
mod describe;
mod sample_batches;

use std::process::Command;

/// Runs `cargo xtask` with these arguments and returns its output.
fn xtask(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "xtask", "--"])
        .args(words)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo xtask {words:?}: {problem}{text}");
    text
}
