//! Errors of the producer, by the possible reactions.

use std::fmt;

use milena_wire::{api::ApiKey, errors::ErrorCode};

use super::WriteStatus;
use crate::{
    TopicPartition,
    member::{CallCause, CallFailure},
};

/// The cause of a failed batch, and whether its records may be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}; {}", describe(*.status))]
pub struct BatchError {
    pub cause: BatchCause,
    pub status: WriteStatus,
}

fn describe(status: WriteStatus) -> &'static str {
    match status {
        WriteStatus::NotWritten => "the records were not written",
        WriteStatus::MayBeWritten => "the records may have been written",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchCause {
    #[error("the broker refused it with {0}")]
    Refused(ErrorCode),
    /// All retries are exhausted.
    #[error("the broker did not respond: {0}")]
    NoResponse(CallFailure),
    #[error("it was not acknowledged within delivery.timeout.ms{}", last(last_cause))]
    TimedOut { last_cause: Option<CallCause> },
    /// The broker does not know the batches before it. With new sequence numbers it could be written twice.
    #[error("the broker has lost track of this producer")]
    SequenceLost,
    #[error("the transaction was aborted")]
    Aborted,
    #[error("there is no transaction that it could be part of")]
    NoTransaction,
    #[error("the producer can send no more: {0}")]
    Stopped(Box<TransactionError>),
}

fn last(cause: &Option<CallCause>) -> String {
    cause.map_or_else(String::new, |cause| format!(": {cause}"))
}

/// The possible reaction of the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Repeat the call.
    Retry,
    /// Abort the transaction, then begin another.
    Abort,
    /// Close the producer.
    GiveUp,
    /// Call in another order.
    Misuse,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransactionError {
    /// The transaction cannot be committed.
    #[error("{0}; abort the transaction")]
    Abortable(TransactionCause),
    /// The producer is ended.
    #[error("{0}; close the producer")]
    Fatal(TransactionCause),
    /// The producer got no id. The call can be repeated once the reason is gone.
    #[error("{0}")]
    Refused(TransactionCause),
    /// An earlier call is not done, or its result was not taken.
    #[error("{0} is still in progress: call it again")]
    InProgress(Operation),
    #[error("{0}")]
    Misuse(Misuse),
}

impl TransactionError {
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Abortable(_) => Remedy::Abort,
            Self::Fatal(_) | Self::Refused(_) => Remedy::GiveUp,
            Self::InProgress(_) => Remedy::Retry,
            Self::Misuse(_) => Remedy::Misuse,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransactionCause {
    #[error("{}", refusal(*.api, *.error))]
    Refused { api: ApiKey, error: ErrorCode },
    #[error("the broker does not support {api:?} as it is needed here")]
    Unsupported { api: ApiKey },
    /// The lookup of the coordinator of a group or of the transaction is not authorized.
    #[error("looking for the coordinator was refused with {0}")]
    Lookup(ErrorCode),
    #[error("a batch of {partition} failed: {cause}")]
    Batch {
        partition: TopicPartition,
        cause: Box<BatchCause>,
    },
    #[error("the transaction was aborted before")]
    Aborted,
}

impl TransactionCause {
    /// Whether the same transaction would most likely fail again, because of its records or because of missing
    /// permissions.
    pub fn is_lasting(&self) -> bool {
        let error = match self {
            Self::Refused { error, .. } | Self::Lookup(error) => *error,
            Self::Batch { cause, .. } => match **cause {
                BatchCause::Refused(error) => error,
                _ => return false,
            },
            Self::Unsupported { .. } => return true,
            Self::Aborted => return false,
        };
        matches!(
            error,
            ErrorCode::TopicAuthorizationFailed
                | ErrorCode::GroupAuthorizationFailed
                | ErrorCode::OffsetMetadataTooLarge
                | ErrorCode::MessageTooLarge
                | ErrorCode::RecordListTooLarge
                | ErrorCode::InvalidRecord
                | ErrorCode::InvalidTimestamp
                | ErrorCode::InvalidTopicException
                | ErrorCode::InvalidRequest
                | ErrorCode::PolicyViolation
                | ErrorCode::UnsupportedForMessageFormat
                | ErrorCode::UnsupportedCompressionType
        )
    }
}

fn refusal(api: ApiKey, error: ErrorCode) -> String {
    match error {
        ErrorCode::ProducerFenced => "another producer has taken over the transactional.id".to_owned(),
        error => format!("{api:?} was refused with {error}"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    #[error("set transactional.id to use transactions")]
    NotTransactional,
    #[error("call init_transactions first")]
    NotInitialized,
    #[error("init_transactions was called before")]
    InitializedTwice,
    #[error("a transaction has been begun and not ended")]
    InTransaction,
    #[error("there is no transaction: begin one")]
    NoTransaction,
    #[error("the transaction is being ended")]
    Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Init,
    SendOffsets,
    Commit,
    Abort,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Init => "init_transactions",
            Self::SendOffsets => "send_offsets",
            Self::Commit => "commit",
            Self::Abort => "abort",
        })
    }
}
