//! A Kafka broker of one node, inside your process or as `milena broker`.
//!
//! The crate uses sockets, threads and the clock, and files only through `milena-log`. Requests may come from anyone, so no
//! request may end the process.
//!
//! Where to start: [`Broker`] to run one; [`config`] for the settings of topics and of the broker, under Kafka's names;
//! `handlers` for the table of APIs and one file for each; `net` for connections; `node` for the state that they share.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod auth;
mod authorizer;
mod broker;
pub mod config;
mod coordinators;
mod damage_log;
mod data_dir;
pub mod doctor;
mod fetch_sessions;
mod handlers;
mod limit_log;
mod log_ends;
mod log_levels;
mod maintenance;
mod metadata_log;
mod metrics;
mod net;
mod node;
mod partition;
mod quotas;
mod syncer;
mod telemetry;
mod throttle;
mod topics;
mod waiters;

pub use broker::{Broker, Options, StartError};
pub use data_dir::DataDirError;
pub use log_levels::{LogLevel, LogLevels, ROOT_LOGGER, UnknownLogLevel};
pub use metadata_log::MetadataError;
pub use telemetry::{TelemetryClient, TelemetryPush, TelemetryReceiver};
pub use throttle::{RequestCost, Throttle};
