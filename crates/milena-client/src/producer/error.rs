//! Errors of the producer.

use std::{sync::Arc, time::Duration};

use milena_machines::{
    TopicPartition,
    produce::{BatchError, TransactionError, WriteStatus},
};
use milena_wire::errors::ErrorCode;

use crate::{auth::AuthenticationError, config::ConfigErrors};

/// The reason why a producer cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NewProducerError {
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    #[error("{0}")]
    Io(String),
}

/// The reason why a record was not sent, or not acknowledged.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    #[error(
        "a record for {topic} has {size} bytes, more than max.request.size ({limit}); raise it, and the broker's message.max.bytes"
    )]
    TooLarge { topic: String, size: usize, limit: usize },
    #[error("a record for {topic} has {size} bytes, more than buffer.memory ({limit})")]
    LargerThanMemory { topic: String, size: usize, limit: usize },
    #[error(
        "buffer.memory was exhausted for max.block.ms ({} ms): records are sent faster than the brokers accept them", waited.as_millis()
    )]
    BufferExhausted { waited: Duration },
    #[error("{topic} has no partition {partition}; it has {count} partitions")]
    NoSuchPartition { topic: String, partition: i32, count: i32 },
    #[error("no metadata for topic {topic} within max.block.ms ({} ms){}", waited.as_millis(), why.as_deref().map(|why| format!(": {why}")).unwrap_or_default())]
    UnknownTopic {
        topic: String,
        waited: Duration,
        why: Option<String>,
    },
    #[error("cannot write to topic {topic}: {code}")]
    Topic { topic: String, code: ErrorCode },
    /// A broker refuses the client. The record was not written.
    #[error(transparent)]
    Authentication(AuthenticationError),
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error("{partition}: {error}")]
    Failed {
        partition: TopicPartition,
        error: Arc<BatchError>,
    },
    #[error("cannot compress the records of {partition}: {why}")]
    Compression { partition: TopicPartition, why: String },
    #[error("the producer is closed")]
    Closed,
}

impl SendError {
    /// Whether the record may be in the log.
    pub fn write_status(&self) -> WriteStatus {
        match self {
            Self::Failed { error, .. } => error.status,
            _ => WriteStatus::NotWritten,
        }
    }
}

/// The reason why a flush or close failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    #[error("{failed} batches failed; the first error: {first}")]
    Failed { failed: usize, first: SendError },
    #[error("{left} batches were not acknowledged in time")]
    TimedOut { left: usize },
}

/// The reason why a transaction call failed. [`TransactionCallError::remedy`] returns the reaction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionCallError {
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error("no response within {} ms; retry the call, or close the producer", waited.as_millis())]
    TimedOut { waited: Duration },
    /// A broker refuses the client.
    #[error(transparent)]
    Authentication(AuthenticationError),
    #[error("the producer is closed")]
    Closed,
}

impl TransactionCallError {
    /// The reaction that the application should choose.
    pub fn remedy(&self) -> milena_machines::produce::Remedy {
        use milena_machines::produce::Remedy;
        match self {
            Self::Transaction(error) => error.remedy(),
            Self::TimedOut { .. } => Remedy::Retry,
            Self::Authentication(_) | Self::Closed => Remedy::GiveUp,
        }
    }
}
