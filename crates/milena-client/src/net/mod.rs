//! Connections to brokers.
//!
//! [`Connections`] has a [`Connection`] for each node and role, opened with its first request. Each is a task on the io
//! thread that owns its socket. Requests are pipelined; responses come in order and run their callbacks on that same
//! thread, so that the callback of a Fetch can send the next one before anything else happens.

mod auth;
mod authentication;
mod call;
mod connection;
mod connections;
mod counters;
mod dial;
mod error;
mod established;
mod failures;
mod handshake;
mod lifecycle;
mod receive;
mod reload;
mod settings;
mod throttle;
mod versions;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use authentication::AuthenticationFailures;
pub(crate) use call::{ApiResponse, SendOptions};
pub(crate) use connection::{Connection, Role, Status};
pub(crate) use connections::{Connections, NodeNumbers};
pub(crate) use counters::Numbers;
pub(crate) use error::CallError;
#[cfg(test)]
pub(crate) use error::{DisconnectCause, RequestProblem};
pub(crate) use settings::{ClientSettings, Endpoint, client_settings};
pub(crate) use throttle::Throttled;
pub(crate) use versions::BrokerVersions;
