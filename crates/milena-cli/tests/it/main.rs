//! Tests of the `milena` binary through its command line.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod admin;
mod application;
mod broker;
mod cert;
#[path = "../../../milena-broker/tests/it/client.rs"]
#[allow(dead_code, reason = "shared with the tests of the broker")]
mod client;
mod command;
mod connection;
mod consume;
mod crash;
mod declared;
mod doctor;
mod help;
mod logging;
mod outbox;
mod perf;
mod process;
mod produce;
mod programs;
mod readme;
mod requests;
mod run;
mod run_docs;
mod secrets;
mod security_docs;
mod services;
mod skew;
mod sql;
