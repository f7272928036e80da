//! Errors of an exchange, as the client sees them.

use super::{Mechanism, scram::CLIENT_ITERATIONS_MAX};

/// The reason why an exchange cannot begin or go on. None of the texts has a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SaslError {
    #[error("the user name is empty; set one")]
    NoUsername,
    #[error("the password is empty; set one")]
    NoPassword,
    #[error("the {field} of SASL/PLAIN contains a NUL character, which separates the fields")]
    Nul { field: &'static str },
    #[error("{mechanism} allows only ASCII characters in user names")]
    UsernameNotAscii { mechanism: Mechanism },
    #[error("the token is not a bearer token: letters, digits and -._~+/ with = at the end only")]
    TokenCharacters,
    #[error("the SASL extension name {name:?} is invalid: ASCII letters only, and not `auth`")]
    ExtensionName { name: String },
    #[error(
        "the value of the SASL extension {name} is invalid: printable ASCII characters, spaces and line breaks only"
    )]
    ExtensionValue { name: String },
    #[error("the broker sent an invalid {mechanism} message: {problem}")]
    InvalidMessage {
        mechanism: Mechanism,
        problem: &'static str,
    },
    #[error(
        "the nonce in the broker's {mechanism} message does not begin with the client's: the connection may be attacked"
    )]
    ForeignNonce { mechanism: Mechanism },
    #[error("the broker asks for {iterations} iterations of {mechanism}, which is less than the minimum of {minimum}")]
    TooFewIterations {
        mechanism: Mechanism,
        iterations: u64,
        minimum: u32,
    },
    #[error(
        "the broker asks for {iterations} iterations of {mechanism}, which is more than the {CLIENT_ITERATIONS_MAX} this \
         client computes; set the user's password again with fewer iterations"
    )]
    TooManyIterations { mechanism: Mechanism, iterations: u64 },
    #[error("the broker failed the exchange of {mechanism}: {error}")]
    ServerError { mechanism: Mechanism, error: String },
    #[error("the broker's signature is wrong: it does not know the password, and is not the broker it should be")]
    ServerSignature,
    #[error("the broker refused the token: {error}")]
    TokenRefused { error: String },
    #[error("a {mechanism} message arrived in a state that expects none")]
    UnexpectedMessage { mechanism: Mechanism },
}
