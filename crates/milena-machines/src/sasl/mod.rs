//! SASL on both sides: the mechanisms, the log-in of a client, and the log-in of a connection to a broker.
//!
//! Messages are bytes in and bytes out. Random bytes and the time are arguments; look-ups of users and the check of
//! tokens are actions that the driver carries out. The expensive derivation of a SCRAM password is an action too, so that
//! it never runs on a task that serves connections.
//!
//! - [`ClientExchange`]: the messages of one mechanism, from the client's side.
//! - [`ClientAuthenticator`]: the requests of one log-in or re-authentication (KIP-368).
//! - [`ServerAuthenticator`]: one connection to a broker, from its first byte to the end of its session.
//!
//! The mechanisms are PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677) and OAUTHBEARER (RFC 7628),
//! with Kafka's limits: no channel binding, no SASLprep, ASCII user names in SCRAM. Types with secrets print none of them.

mod client;
mod error;
mod mechanism;
mod name;
mod oauth;
mod plain;
mod scram;
mod server;

pub use client::{
    ClientAction, ClientAuthError, ClientAuthenticator, ClientExchange, ClientStep, ScramLogin, reauthenticate_after_ms,
};
pub use error::SaslError;
pub use mechanism::{Mechanism, ScramMechanism};
pub use oauth::BearerToken;
pub use plain::PlainCredentials;
pub use scram::{CLIENT_ITERATIONS_MAX, ITERATIONS_MIN, NONCE_BYTES, SaltedPassword, ScramCredential};
pub use server::{
    AuthenticationFailure, FailureResponse, Reauthentication, RequestVerdict, SaslResponse, SaslServerConfig,
    ServerAction, ServerAuthenticator, Session, TokenRejection, VerifiedToken,
};
