//! Errors of connections and requests.

use std::{fmt, io, net::IpAddr};

use bytestring::ByteString;
use milena_wire::{
    api::ApiKey, decode::DecodeError, encode::EncodeError, errors::ErrorCode, frame::FrameError, message::VersionRange,
};

use super::Endpoint;
use crate::reachability::FailureCause;

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
            Self::UnsupportedVersion { .. }
            | Self::MalformedResponse { .. }
            | Self::EncodeFailed { .. }
            | Self::Closed => false,
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
}

impl ConnectError {
    /// A failure to read or write before the handshake was complete.
    pub(super) fn in_handshake(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Frame(_) | ReceiveError::Tls => Self::WrongProtocol(error),
            ReceiveError::Eof | ReceiveError::EofInside | ReceiveError::Io(_) => Self::ClosedInHandshake(error),
        }
    }

    pub(super) fn cause(&self) -> FailureCause {
        match self {
            Self::Resolve(_) | Self::NoAddress => FailureCause::NameUnknown,
            Self::ResolveTimedOut { .. } | Self::HandshakeTimedOut { .. } => FailureCause::TimedOut,
            Self::Connect { attempts, .. } => attempts
                .last()
                .map_or(FailureCause::NameUnknown, |attempt| attempt.error.cause()),
            Self::ClosedInHandshake(_) => FailureCause::ClosedInHandshake,
            Self::WrongProtocol(_)
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
            Self::Receive(_) | Self::Send(_) | Self::BrokerMoved { .. } | Self::BrokerRemoved | Self::RuntimeEnded => {
                FailureCause::Disconnected
            }
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
    #[error("the broker closed the connection")]
    Eof,
    #[error("the broker closed the connection in the middle of a response")]
    EofInside,
    #[error(transparent)]
    Io(#[from] SystemError),
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.into())
    }
}

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
