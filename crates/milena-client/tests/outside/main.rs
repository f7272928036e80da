//! The clients against a real Apache Kafka with one and with three brokers. Kafka's producer and consumers run beside
//! ours. Tests that our broker can run too are run against it.
//!
//! `cargo test -p milena-client --features outside --test outside`; CONTRIBUTING.md lists the requirements.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod admin;
mod bed;
mod changing_topics;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
mod cluster;
mod committed_offsets;
mod failing_brokers;
mod groups;
mod interop;
mod ledger;
mod members;
mod offsets;
mod patience;
mod peer;
#[path = "../../../milena-cli/tests/outside/programs.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod programs;
mod reading;
mod records;
#[path = "../../../milena-broker/tests/it/running.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod running;
mod security;
mod transactions;
mod writing;
