//! Credentials of both sides: certificates, log-in texts, secrets and tokens.
//!
//! - [`tls`] turns Kafka's `ssl.*` settings into configurations of rustls, and reloads them when files change.
//! - [`principal`] gives the name of a client from its certificate.
//! - [`jaas`] parses `sasl.jaas.config`.
//! - [`mod@reference`] replaces `${file:…}`, `${dir:…}` and `${env:…}` in configs.
//! - [`jwt`] verifies and signs JSON web tokens.
//! - `dev_certs` makes certificates for development (feature `dev-certs`).
//! - [`Secret`] keeps a text out of logs and clears it from memory.
//!
//! This crate reads files and the environment, and the clock only to compare it with certificates and changes of files.
//! It knows no sockets, no async, and no messages of Kafka. Start at [`tls::TlsOptions`].

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

#[cfg(feature = "dev-certs")]
pub mod dev_certs;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod jaas;
pub mod jwt;
pub mod principal;
pub mod reference;
mod secret;
mod store;
pub mod tls;
mod x509;

pub use secret::Secret;
