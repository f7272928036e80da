//! Kafka's clients: [`Consumer`](consumer), [`Producer`](producer), [`Admin`](admin), with connections, metadata and
//! configuration.
//!
//! Decisions are made in `milena-machines`; this crate has the sockets, the timers and the locks. All IO runs on one
//! background thread of the process, so that heartbeats do not depend on the application's executor.
//!
//! Start reading at `consumer/shared.rs` or `producer/shared.rs`; `net/mod.rs` explains connections.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod admin;
pub mod auth;
pub mod config;
pub mod consumer;
mod coordinator;
pub mod exactly_once;
mod io;
mod metadata;
pub mod metrics;
mod net;
mod outages;
pub mod producer;
pub mod reachability;
