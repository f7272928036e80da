//! Errors of connections and requests.

use std::{fmt, io, net::IpAddr};

use bytestring::ByteString;
use milena_wire::{
    api::ApiKey, decode::DecodeError, encode::EncodeError, errors::ErrorCode, frame::FrameError, message::VersionRange,
};

use milena_security::tls::{FailureKind, TlsFailure};

use super::Endpoint;
use crate::{auth::AuthenticationError, reachability::FailureCause};

/// The reason why a request has no response. An error code inside a response is not an error here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The broker may or may not have executed the request.
    #[error("the connection to {address} was lost: {cause}")]
    Disconnected { address: Endpoint, cause: DisconnectCause },
    /// If the request was sent, its connection is closed, and the broker may or may not have executed it.
    #[error("{address} did not respond to {api} within {timeout_ms} ms")]
    TimedOut {
        address: Endpoint,
        api: ApiKey,
        timeout_ms: i64,
    },
    /// The request was never sent. Boxed, because every result of a request has room for this type.
    #[error("cannot connect to {address}: {error}")]
    ConnectFailed {
        address: Endpoint,
        error: Box<ConnectError>,
    },
    /// The request was never sent: the log-in was refused, or a certificate.
    #[error(transparent)]
    Authentication(Box<AuthenticationError>),
    /// The request was never sent, and this broker will never accept it.
    #[error(
        "the broker at {address} supports no usable version of {api}: we can use {ours}, it has {}",
        or_none(theirs)
    )]
    UnsupportedVersion {
        address: Endpoint,
        api: ApiKey,
        ours: VersionRange,
        theirs: Option<VersionRange>,
    },
    /// The connection is closed, because the bytes that follow cannot be trusted.
    #[error("the broker at {address} sent a malformed {api} response: {problem}")]
    MalformedResponse {
        address: Endpoint,
        api: ApiKey,
        problem: ResponseProblem,
    },
    /// The request cannot be encoded in the version that was agreed on. It was never sent.
    #[error("cannot encode {api}: {problem}")]
    EncodeFailed { api: ApiKey, problem: RequestProblem },
    /// The queue of the connection is full. The request was never sent.
    #[error("{waiting} requests already wait for {address}")]
    TooManyWaiting { address: Endpoint, waiting: usize },
    #[error("the client is closed")]
    Closed,
}

impl CallError {
    /// Whether the same request may succeed later or with another broker.
    pub(crate) fn is_retriable(&self) -> bool {
        match self {
            Self::Disconnected { .. }
            | Self::TimedOut { .. }
            | Self::ConnectFailed { .. }
            | Self::TooManyWaiting { .. } => true,
            Self::Authentication(_)
            | Self::UnsupportedVersion { .. }
            | Self::MalformedResponse { .. }
            | Self::EncodeFailed { .. }
            | Self::Closed => false,
        }
    }

    /// The error of a refused log-in.
    pub(crate) fn authentication(&self) -> Option<&AuthenticationError> {
        match self {
            Self::Authentication(error) => Some(error),
            _ => None,
        }
    }
}

fn or_none(range: &Option<VersionRange>) -> String {
    range.map_or_else(|| "none".to_owned(), |range| range.to_string())
}

/// The reason why a response cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ResponseProblem {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("it is for request {received}, but the next response is due for {expected}")]
    WrongCorrelationId { expected: i32, received: i32 },
    #[error("the request has no response")]
    NotExpected,
}

/// The reason why a request cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestProblem {
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("it was already sent")]
    AlreadySent,
    #[error("building the request panicked")]
    BuilderPanicked,
}

/// The reason why a connection could not be established.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("cannot resolve the host name: {0}")]
    Resolve(SystemError),
    #[error("cannot resolve the host name within {timeout_ms} ms")]
    ResolveTimedOut { timeout_ms: i64 },
    #[error("the host name has no address")]
    NoAddress,
    /// No address of the host accepted the connection, in the order of the attempts.
    #[error("{}", join_attempts(host, attempts))]
    Connect {
        host: ByteString,
        attempts: Vec<AddressFailure>,
    },
    #[error("no {api} response within {timeout_ms} ms")]
    HandshakeTimedOut { api: ApiKey, timeout_ms: u64 },
    #[error("{0} during the handshake")]
    ClosedInHandshake(ReceiveError),
    /// The peer does not speak Kafka's protocol, or speaks it over TLS.
    #[error(transparent)]
    WrongProtocol(ReceiveError),
    #[error("malformed {api} response: {error}")]
    MalformedResponse { api: ApiKey, error: DecodeError },
    #[error("the peer does not speak Kafka's protocol: its first response is not for the first request")]
    WrongCorrelationId,
    #[error("cannot encode {api}: {error}")]
    EncodeFailed { api: ApiKey, error: EncodeError },
    #[error("the broker refused ApiVersions: {0}")]
    VersionsRefused(ErrorCode),
    /// Another attempt with the same credentials and certificates fails too.
    #[error(transparent)]
    Authentication(AuthenticationError),
    /// The peer does not speak TLS, or no version of it that both sides have.
    #[error("{0}")]
    TlsProtocol(String),
    #[error("{0}")]
    TlsDisconnected(String),
    #[error("no TLS handshake within {timeout_ms} ms")]
    TlsTimedOut { timeout_ms: i64 },
    /// There is no token to log in with, but there may be one later.
    #[error("cannot get a token for OAUTHBEARER: {0}")]
    NoToken(String),
    /// The broker has no API for a log-in, or is too old.
    #[error("{0}; SASL needs Kafka 1.0 or newer")]
    NoSasl(Box<CallError>),
    #[error("the operating system has no random numbers")]
    NoRandomNumbers,
}

impl ConnectError {
    /// A certificate that one side refuses.
    pub(super) fn tls_refused(broker: &Endpoint, text: String) -> Self {
        Self::Authentication(AuthenticationError::new(broker, "TLS", text))
    }

    /// A failure to read or write before the handshake was complete.
    pub(super) fn in_handshake(error: ReceiveError, broker: &Endpoint) -> Self {
        match error {
            // With TLS 1.3 a broker refuses the client's certificate after the handshake.
            ReceiveError::TlsFailed(failure) => match failure.kind {
                FailureKind::Authentication => Self::tls_refused(broker, failure.text),
                FailureKind::Protocol | FailureKind::Disconnected => Self::TlsProtocol(failure.text),
            },
            ReceiveError::Frame(_) | ReceiveError::Tls | ReceiveError::Http => Self::WrongProtocol(error),
            ReceiveError::Eof | ReceiveError::EofInside | ReceiveError::Io(_) => Self::ClosedInHandshake(error),
        }
    }

    pub(super) fn cause(&self) -> FailureCause {
        match self {
            Self::Resolve(_) | Self::NoAddress => FailureCause::NameUnknown,
            Self::ResolveTimedOut { .. } | Self::HandshakeTimedOut { .. } | Self::TlsTimedOut { .. } => {
                FailureCause::TimedOut
            }
            Self::Authentication(_) => FailureCause::AuthenticationFailed,
            Self::NoToken(_) => FailureCause::NoToken,
            Self::TlsDisconnected(_) => FailureCause::ClosedInHandshake,
            Self::NoRandomNumbers => FailureCause::Other,
            Self::Connect { attempts, .. } => attempts
                .last()
                .map_or(FailureCause::NameUnknown, |attempt| attempt.error.cause()),
            Self::ClosedInHandshake(_) => FailureCause::ClosedInHandshake,
            Self::WrongProtocol(_)
            | Self::TlsProtocol(_)
            | Self::NoSasl(_)
            | Self::MalformedResponse { .. }
            | Self::WrongCorrelationId
            | Self::EncodeFailed { .. }
            | Self::VersionsRefused(_) => FailureCause::WrongProtocol,
        }
    }
}

/// A failed attempt to connect to one address of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AddressFailure {
    pub(super) address: IpAddr,
    pub(super) error: AddressError,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error("no connection within {timeout_ms} ms")]
    TimedOut { timeout_ms: i64 },
    #[error(transparent)]
    System(#[from] SystemError),
}

impl AddressError {
    fn cause(&self) -> FailureCause {
        match self {
            Self::TimedOut { .. } => FailureCause::TimedOut,
            Self::System(error) => match error.kind {
                io::ErrorKind::ConnectionRefused => FailureCause::Refused,
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => FailureCause::NoRoute,
                io::ErrorKind::TimedOut => FailureCause::TimedOut,
                _ => FailureCause::Other,
            },
        }
    }
}

fn join_attempts(host: &ByteString, attempts: &[AddressFailure]) -> String {
    // A host that is an address itself is not repeated.
    let is_address = host.parse::<IpAddr>().is_ok();
    let attempts = attempts.iter().map(|attempt| match is_address {
        true => attempt.error.to_string(),
        false => format!("{}: {}", attempt.address, attempt.error),
    });
    attempts.collect::<Vec<_>>().join("; ")
}

/// The reason why an established connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DisconnectCause {
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    #[error("cannot send: {0}")]
    Send(SystemError),
    /// The listener takes ApiVersions from everybody, and closes the connection with the first request that needs a log-in.
    #[error(
        "the broker closed the connection with the first request; if its listener requires SASL, set security.protocol to \
         SASL_SSL or SASL_PLAINTEXT"
    )]
    ClosedAtFirstRequest,
    /// The session could not be renewed. The next connection logs in again.
    #[error("re-authentication failed: {0}")]
    Reauthentication(String),
    /// The next connection logs in as this identity; a connection cannot change it.
    #[error("the credentials belong to another identity than before")]
    IdentityChanged,
    #[error("the broker sent a response without a request in flight")]
    UnexpectedResponse,
    #[error("malformed {api} response: {problem}")]
    MalformedResponse { api: ApiKey, problem: ResponseProblem },
    /// Responses come in order, so a request that timed out blocks all that follow.
    #[error("the broker did not respond to {api} within {timeout_ms} ms")]
    RequestTimedOut { api: ApiKey, timeout_ms: i64 },
    #[error("the broker has moved to {to}")]
    BrokerMoved { to: Endpoint },
    #[error("the broker has left the cluster")]
    BrokerRemoved,
    #[error("the tokio runtime of the connection has ended; the next connection uses the io thread")]
    RuntimeEnded,
}

impl DisconnectCause {
    pub(super) fn cause(&self) -> FailureCause {
        match self {
            Self::Receive(_)
            | Self::Send(_)
            | Self::ClosedAtFirstRequest
            | Self::IdentityChanged
            | Self::BrokerMoved { .. }
            | Self::BrokerRemoved
            | Self::RuntimeEnded => FailureCause::Disconnected,
            Self::Reauthentication(_) => FailureCause::AuthenticationFailed,
            Self::UnexpectedResponse | Self::MalformedResponse { .. } => FailureCause::WrongProtocol,
            Self::RequestTimedOut { .. } => FailureCause::RequestTimedOut,
        }
    }
}

/// The reason why no further frame can be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the broker speaks TLS, but the client is set to plain text; set security.protocol to SSL or SASL_SSL")]
    Tls,
    #[error("the peer speaks HTTP, not Kafka's protocol; check the port")]
    Http,
    #[error("{0}")]
    TlsFailed(TlsFailure),
    #[error("the broker closed the connection")]
    Eof,
    #[error("the broker closed the connection in the middle of a response")]
    EofInside,
    #[error(transparent)]
    Io(#[from] SystemError),
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        match error.get_ref().and_then(|error| error.downcast_ref::<ExplainedTls>()) {
            Some(ExplainedTls(failure)) => Self::TlsFailed(failure.clone()),
            None => Self::Io(error.into()),
        }
    }
}

/// A failure of TLS inside an [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ExplainedTls(pub(super) TlsFailure);

/// An [`io::Error`] that can be cloned and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SystemError {
    pub(super) kind: io::ErrorKind,
    text: String,
}

impl From<io::Error> for SystemError {
    fn from(error: io::Error) -> Self {
        Self {
            kind: error.kind(),
            text: error.to_string(),
        }
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for SystemError {}
