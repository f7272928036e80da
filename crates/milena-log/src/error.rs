//! Errors of storage and of appends.

use std::{
    io,
    path::{Path, PathBuf},
};

use milena_wire::errors::ErrorCode;

use crate::{
    cleaner::CompactionError, disk::Retired, producers::ProducerError, segment::Segment, validate::InvalidBatch,
};

/// A file operation that failed, or a file with unexpected content.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Appends are refused until there is space again; reads continue.
    #[error("no space left on the disk of {}", path.display())]
    DiskFull { path: PathBuf },
    /// The log's topic was deleted; the folder may belong to another log by now.
    #[error("{} is the log of a topic that was deleted", path.display())]
    Retired { path: PathBuf },
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} is damaged: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// The log stays as it was.
    #[error("cannot compact {}: {source}", path.display())]
    Compaction { path: PathBuf, source: CompactionError },
    /// Records that were safe on disk are not there any more.
    #[error(
        "{}: offsets {from} to {} are missing: {reason}; stop the broker and restore the files from a copy, or start it \
         once with milena.recovery=accept-loss to go on without these records",
        dir.display(),
        to - 1
    )]
    Missing {
        dir: PathBuf,
        from: i64,
        /// The first offset that is not missing.
        to: i64,
        reason: String,
    },
    /// An invariant does not hold, so the operation was refused.
    #[error("internal error in {}: {invariant} does not hold; see the log line invariant_violated", path.display())]
    Violated { path: PathBuf, invariant: &'static str },
    /// The log was not opened; the reason is that of the error it was not opened for.
    #[error("{} is offline: {reason}", dir.display())]
    Offline { dir: PathBuf, reason: String },
}

impl StorageError {
    /// The error code for clients.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::Retired { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::DiskFull { .. }
            | Self::Io { .. }
            | Self::Damaged { .. }
            | Self::Compaction { .. }
            | Self::Missing { .. }
            | Self::Violated { .. }
            | Self::Offline { .. } => ErrorCode::KafkaStorageError,
        }
    }

    pub(crate) fn offline(dir: &Path, reason: &str) -> Self {
        Self::Offline {
            dir: dir.to_owned(),
            reason: reason.to_owned(),
        }
    }

    pub(crate) fn compaction(segment: &Segment, source: CompactionError) -> Self {
        let path = segment.path_of("log");
        Self::Compaction { path, source }
    }

    pub(crate) fn violated(path: &Path, invariant: &'static str) -> Self {
        let path = path.to_owned();
        Self::Violated { path, invariant }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Invalid(#[from] InvalidBatch),
    #[error(transparent)]
    Producer(#[from] ProducerError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl AppendError {
    /// The error code that Kafka has for it.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::Invalid(invalid) => invalid.error_code(),
            Self::Producer(ProducerError::OldEpoch { .. }) => ErrorCode::InvalidProducerEpoch,
            Self::Producer(ProducerError::TooMany { .. }) => ErrorCode::PolicyViolation,
            Self::Producer(ProducerError::OutOfOrder { .. }) => ErrorCode::OutOfOrderSequenceNumber,
            Self::Producer(ProducerError::OutsideTransaction { .. }) => ErrorCode::InvalidTxnState,
            Self::Producer(ProducerError::OldCoordinator { .. }) => ErrorCode::TransactionCoordinatorFenced,
            Self::Storage(error) => error.error_code(),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DeleteRecordsError {
    #[error("offset {offset} is above the high watermark {high_watermark}")]
    OutOfRange { offset: i64, high_watermark: i64 },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Adds the action and the path to an IO error.
pub(crate) trait Doing<T> {
    fn doing(self, action: &'static str, path: &Path) -> Result<T, StorageError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, action: &'static str, path: &Path) -> Result<T, StorageError> {
        self.map_err(|source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageError::DiskFull { path },
                _ if source.get_ref().is_some_and(|inner| inner.is::<Retired>()) => StorageError::Retired { path },
                _ => StorageError::Io { action, path, source },
            }
        })
    }
}
