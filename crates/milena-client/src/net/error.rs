//! Why a request has no answer.

use milena_wire::{api::ApiKey, message::VersionRange};

use super::Endpoint;

/// Why a request has no answer. What the broker said in an answer is not an error here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The broker may or may not have done what was asked.
    #[error("the connection to {address} was lost: {why}")]
    Disconnected { address: Endpoint, why: String },
    /// If it had been sent, its connection is closed, and the broker may or may not have done what was asked.
    #[error("{address} did not answer {api} within {timeout_ms} ms")]
    TimedOut {
        address: Endpoint,
        api: ApiKey,
        timeout_ms: i64,
    },
    /// The request was never sent.
    #[error("cannot connect to {address}: {why}")]
    ConnectFailed { address: Endpoint, why: String },
    /// The request was never sent, and this broker will never take it.
    #[error(
        "the broker at {address} has no version of {api} that is needed: we can use {ours}, it has {}",
        or_none(theirs)
    )]
    UnsupportedVersion {
        address: Endpoint,
        api: ApiKey,
        ours: VersionRange,
        theirs: Option<VersionRange>,
    },
    /// The connection is closed, because what comes next cannot be trusted.
    #[error("the broker at {address} answered {api} with what cannot be read: {why}")]
    MalformedResponse {
        address: Endpoint,
        api: ApiKey,
        why: String,
    },
    /// The request cannot be written in the version that was agreed on. It was never sent.
    #[error("{api} cannot be written: {why}")]
    BadRequest { api: ApiKey, why: String },
    /// So many requests wait already that this one was refused. It was never sent.
    #[error("{waiting} requests already wait for {address}")]
    TooManyWaiting { address: Endpoint, waiting: usize },
    #[error("the client is closed")]
    Closed,
}

impl CallError {
    /// Whether the same request may succeed at another time or with another broker.
    pub(crate) fn is_retriable(&self) -> bool {
        match self {
            Self::Disconnected { .. }
            | Self::TimedOut { .. }
            | Self::ConnectFailed { .. }
            | Self::TooManyWaiting { .. } => true,
            Self::UnsupportedVersion { .. }
            | Self::MalformedResponse { .. }
            | Self::BadRequest { .. }
            | Self::Closed => false,
        }
    }
}

fn or_none(range: &Option<VersionRange>) -> String {
    range.map_or_else(|| "none".to_owned(), |range| range.to_string())
}
