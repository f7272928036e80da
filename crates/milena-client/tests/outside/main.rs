//! The consumer before judges that Milena's authors did not write: a real Apache Kafka of one and of three brokers, records
//! that Kafka's own producer wrote, and Kafka's own consumers beside ours in one group. What can be asked of our broker
//! too is asked of it.
//!
//! `cargo test -p milena-client --features outside --test outside`; CONTRIBUTING.md says what must be installed.

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
mod transactions;
mod writing;
