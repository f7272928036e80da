//! Authentication of clients: tokens for OAUTHBEARER, and the error of a refused log-in.
//!
//! Most applications set only config keys: `security.protocol`, `sasl.mechanism` and `sasl.jaas.config`, or librdkafka's
//! `sasl.username` and `sasl.password`. A [`TokenProvider`] gives tokens from code, and [`AwsMskIam`] signs those of Amazon
//! MSK. The driver of the mechanisms is in `net/auth`.

mod assertion;
mod aws;
mod endpoint;
mod file;
mod token;
mod unsecured;

use std::fmt;

pub(crate) use assertion::{Assertion, AssertionClaims, KeySource};
pub use aws::{AwsCredentials, AwsCredentialsProvider, AwsMskIam, CredentialsFuture, EnvironmentCredentials};
pub(crate) use endpoint::{ClientAuthentication, EndpointRetries, Grant, TokenEndpoint};
pub(crate) use file::{JwtClaimNames, JwtFile};
pub use milena_security::Secret;
pub use token::{Token, TokenError, TokenFuture, TokenProvider};
pub(crate) use unsecured::UnsecuredLogin;

/// A broker refused the log-in, or one side refused the other's certificate.
///
/// The call that needed the connection ends with it at once. Another call tries again: credentials may have been mended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthenticationError {
    /// Host and port of the broker.
    pub broker: String,
    /// The SASL mechanism, or `TLS`.
    pub mechanism: String,
    /// The broker's text, or the reason why its certificate is refused.
    pub text: String,
}

impl AuthenticationError {
    pub(crate) fn new(broker: impl fmt::Display, mechanism: &str, text: impl Into<String>) -> Self {
        Self {
            broker: broker.to_string(),
            mechanism: mechanism.to_owned(),
            text: text.into(),
        }
    }
}

impl fmt::Display for AuthenticationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            broker,
            mechanism,
            text,
        } = self;
        write!(f, "authentication at {broker} with {mechanism} failed: {text}")
    }
}

impl std::error::Error for AuthenticationError {}
