//! What went wrong, told apart by what can be done.

use std::fmt;

use milena_wire::{api::ApiKey, errors::ErrorCode};

use super::Fate;
use crate::{
    TopicPartition,
    member::{CallCause, CallFailure},
};

/// Why a batch failed, and what is known of its records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{cause}; {}", told(*.fate))]
pub struct BatchError {
    pub cause: BatchCause,
    pub fate: Fate,
}

fn told(fate: Fate) -> &'static str {
    match fate {
        Fate::NotWritten => "the records were not written",
        Fate::MayBeWritten => "the records may have been written",
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchCause {
    #[error("the broker refused it with {0}")]
    Refused(ErrorCode),
    /// All retries are used up.
    #[error("the broker did not answer: {0}")]
    NoResponse(CallFailure),
    #[error("it was not acknowledged within delivery.timeout.ms{}", last(last_cause))]
    TimedOut { last_cause: Option<CallCause> },
    /// The broker does not know the batches before it. With new numbers it could be written twice.
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

/// What the application can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Call the same again.
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
    /// This producer can do nothing any more.
    #[error("{0}; close the producer")]
    Fatal(TransactionCause),
    /// The producer was not told who it is. Asking again makes sense once the reason is gone.
    #[error("{0}")]
    Refused(TransactionCause),
    /// An earlier call has not ended, or nobody has heard how.
    #[error("{0} is still under way: call it again")]
    UnderWay(Operation),
    #[error("{0}")]
    Misuse(Misuse),
}

impl TransactionError {
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Abortable(_) => Remedy::Abort,
            Self::Fatal(_) | Self::Refused(_) => Remedy::GiveUp,
            Self::UnderWay(_) => Remedy::Retry,
            Self::Misuse(_) => Remedy::Misuse,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransactionCause {
    #[error("{}", answered(*.api, *.error))]
    Answered { api: ApiKey, error: ErrorCode },
    #[error("the broker does not support {api:?} as it is needed here")]
    Unsupported { api: ApiKey },
    /// The coordinator of a group or of the transaction may not be asked for.
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
    /// Whether the same transaction would most likely fail again, because of what is written in it or because of what this
    /// producer may not do.
    pub fn is_lasting(&self) -> bool {
        let error = match self {
            Self::Answered { error, .. } | Self::Lookup(error) => *error,
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

fn answered(api: ApiKey, error: ErrorCode) -> String {
    match error {
        ErrorCode::ProducerFenced => "another producer has taken over the transactional.id".to_owned(),
        error => format!("{api:?} was answered with {error}"),
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
