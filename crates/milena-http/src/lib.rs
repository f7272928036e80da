//! HTTP/1.1 without a framework: a [`Client`] of one URL, and an [`Endpoint`] that serves metrics and health.
//!
//! It may touch sockets and the clock, and knows nothing of Kafka. Everything that a peer sends is bounded: heads, bodies,
//! time, connections. TLS comes from the caller as a finished configuration. Start reading at `client/mod.rs` for requests
//! to services, and at `endpoint.rs` for the server.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod client;
pub mod endpoint;
pub mod url;

pub use client::{Client, ClientOptions, HttpError, Request, Response, form};
pub use endpoint::{Endpoint, Page};
pub use url::{Scheme, Url, UrlError};
