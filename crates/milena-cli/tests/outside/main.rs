//! Tests of our broker with programs that Milena's authors did not write: other clients, Kafka's own tools, and a real
//! Kafka that takes over our files.
//!
//! Run it with `cargo test -p milena-cli --features outside --test outside`; CONTRIBUTING.md lists the requirements.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

#[path = "../../../milena-broker/tests/it/acl_table/mod.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod acl_table;
mod acls;
mod certificates;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
mod clients;
mod cluster_tools;
mod command_line;
mod copiers;
mod group_tools;
mod groups;
mod kafka_on_our_files;
mod kafka_tools;
mod kcat;
mod metrics;
mod old_formats;
mod outbox;
#[path = "../it/process.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod process;
mod program;
mod programs;
mod promtool;
mod quotas;
mod request_reply;
mod secured;
mod streams;
