//! What can go wrong with a producer, and what it means for the records.

use std::{sync::Arc, time::Duration};

use milena_machines::{
    TopicPartition,
    produce::{BatchError, Fate, TransactionError},
};
use milena_wire::errors::ErrorCode;

use crate::config::ConfigErrors;

/// Why there is no producer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewProducerError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Io(String),
}

/// Why a record was not sent, or not acknowledged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    #[error(
        "a record for {topic} takes {size} bytes, more than max.request.size allows ({limit}); raise it, and the broker's message.max.bytes"
    )]
    TooLarge { topic: String, size: usize, limit: usize },
    #[error("a record for {topic} takes {size} bytes, more than buffer.memory has in all ({limit})")]
    LargerThanMemory { topic: String, size: usize, limit: usize },
    #[error(
        "no room in buffer.memory within max.block.ms ({} ms): the brokers take records slower than they are sent", waited.as_millis()
    )]
    BufferExhausted { waited: Duration },
    #[error("{topic} has no partition {partition}: it has {count}")]
    NoSuchPartition { topic: String, partition: i32, count: i32 },
    #[error("nothing is known of {topic} after max.block.ms ({} ms){}", waited.as_millis(), why.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    UnknownTopic {
        topic: String,
        waited: Duration,
        why: Option<String>,
    },
    #[error("{topic} cannot be written to: {code}")]
    Topic { topic: String, code: ErrorCode },
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error("{partition}: {error}")]
    Failed {
        partition: TopicPartition,
        error: Arc<BatchError>,
    },
    #[error("the records of {partition} cannot be compressed: {why}")]
    Compression { partition: TopicPartition, why: String },
    #[error("the producer is closed")]
    Closed,
}

impl SendError {
    /// What is known of the record: whether it may be in the log.
    pub fn fate(&self) -> Fate {
        match self {
            Self::Failed { error, .. } => error.fate,
            _ => Fate::NotWritten,
        }
    }
}

/// What was not written until a flush, or until the end.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    #[error("{failed} batches failed, the first of them so: {first}")]
    Failed { failed: usize, first: SendError },
    #[error("{left} batches were not acknowledged in time")]
    TimedOut { left: usize },
}

/// Why a call about a transaction has failed. [`TransactionCallError::remedy`] says what to do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionCallError {
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error("no answer within {} ms; call it again, or close the producer", waited.as_millis())]
    TimedOut { waited: Duration },
    #[error("the producer is closed")]
    Closed,
}

impl TransactionCallError {
    /// What the application can do.
    pub fn remedy(&self) -> milena_machines::produce::Remedy {
        use milena_machines::produce::Remedy;
        match self {
            Self::Transaction(error) => error.remedy(),
            Self::TimedOut { .. } => Remedy::Retry,
            Self::Closed => Remedy::GiveUp,
        }
    }
}
