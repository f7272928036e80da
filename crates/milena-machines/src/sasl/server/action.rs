//! The actions of the broker's side, and the values that travel with them.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{api::ApiKey, errors::ErrorCode, frame::RequestFrame};

use crate::sasl::{BearerToken, Mechanism, PlainCredentials, ScramMechanism};

/// The next action of the driver. Each input of the machine leads to exactly one.
#[derive(Debug)]
pub enum ServerAction {
    /// Serve the request by the handler of ApiVersions, send its response, and report its error with
    /// [`handle_api_versions`](super::ServerAuthenticator::handle_api_versions).
    ServeApiVersions(RequestFrame),
    /// Send the response and read the next frame.
    Respond(SaslResponse),
    /// Compare in constant time; report with [`handle_plain`](super::ServerAuthenticator::handle_plain).
    VerifyPlain(PlainCredentials),
    /// Look the user up; report with [`handle_scram`](super::ServerAuthenticator::handle_scram).
    LookupScram {
        mechanism: ScramMechanism,
        username: ByteString,
    },
    /// Verify the token; report with [`handle_token`](super::ServerAuthenticator::handle_token).
    VerifyToken(BearerToken),
    /// Send the response; then the connection is logged in, or its session renewed.
    Complete { response: SaslResponse, session: Session },
    /// The log-in failed. Read nothing, wait for the delay of failed log-ins, send the response, and close.
    Fail {
        response: Option<FailureResponse>,
        failure: AuthenticationFailure,
    },
    /// The client does not follow the protocol. Close at once, without a response.
    Close(AuthenticationFailure),
}

/// A response in its frame.
#[derive(Clone, PartialEq, Eq)]
pub struct SaslResponse {
    /// `None` for a bare token, after a handshake of version 0.
    pub key: Option<ApiKey>,
    pub error: ErrorCode,
    /// The whole frame, with its length.
    pub bytes: Bytes,
}

/// Without the token.
impl fmt::Debug for SaslResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SaslResponse({:?}, {})", self.key, self.error)
    }
}

/// The response of a failed log-in.
#[derive(Debug)]
pub enum FailureResponse {
    Sasl(SaslResponse),
    /// The error response of the API that this request is of.
    Request {
        request: RequestFrame,
        error: ErrorCode,
    },
}

/// A log-in that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The name of the principal; its type is `User`.
    pub principal: ByteString,
    pub mechanism: Mechanism,
    /// The time until it ends; `None` if it never does. A session that has ended may still be renewed.
    pub lifetime_ms: Option<u64>,
    /// Set if the session was renewed, not begun.
    pub reauthentication: Option<Reauthentication>,
    /// Whether the client knows re-authentication: it uses a version of SaslAuthenticate with a lifetime.
    pub client_reauthenticates: bool,
    /// The extensions of OAUTHBEARER.
    pub extensions: BTreeMap<String, String>,
}

/// A renewal of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reauthentication {
    /// From the client's SaslHandshake to the end of the exchange.
    pub latency_ms: u64,
}

/// A token that the driver has verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    pub principal: ByteString,
    /// The time until it expires.
    pub lifetime_ms: u64,
}

/// The reason why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRejection {
    /// The reason is for the log; the client is told none.
    Invalid { reason: String },
    /// The token lacks a scope, which the client is told.
    InsufficientScope { scope: Option<String> },
    /// The broker cannot verify tokens.
    Internal { reason: String },
}

/// Whether a request on a logged-in connection may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestVerdict {
    Serve,
    /// A SaslHandshake that renews the session. Send all pending responses; then give its frame to
    /// [`handle_frame`](super::ServerAuthenticator::handle_frame).
    Reauthenticate,
    /// The session has ended. Close the connection; count it as an expired connection.
    Expired,
}

/// A log-in that failed, for the log and for metrics. No text has a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthenticationFailure {
    /// `None` before the client has chosen one.
    pub mechanism: Option<Mechanism>,
    /// Whether the connection was logged in before.
    pub reauthentication: bool,
    pub reason: String,
}

impl fmt::Display for AuthenticationFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.reauthentication {
            "re-authentication"
        } else {
            "authentication"
        };
        match self.mechanism {
            Some(mechanism) => write!(f, "{kind} with {mechanism} failed: {}", self.reason),
            None => write!(f, "{kind} failed: {}", self.reason),
        }
    }
}
