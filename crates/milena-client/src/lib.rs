//! Kafka's client side: connections, metadata, configuration, and the [`Consumer`](consumer).
//!
//! Decisions live in `milena-machines`; this room has the sockets, the timers and the lock between them and the
//! application. All IO runs on one background thread of the process, so that heartbeats go on whatever the application's
//! own executor does.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod admin;
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
