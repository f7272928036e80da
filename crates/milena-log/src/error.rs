//! What can go wrong with files.

use std::{
    io,
    path::{Path, PathBuf},
};

use milena_wire::errors::ErrorCode;

use crate::disk::Retired;

/// A file operation that failed, or a file that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Writing is refused until there is room again; reading goes on.
    #[error("no room left on the disk of {}", path.display())]
    DiskFull { path: PathBuf },
    /// The log's topic was deleted; what is in the folder now may be another's.
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
}

impl StorageError {
    /// What a client is told.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            Self::Retired { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::DiskFull { .. } | Self::Io { .. } | Self::Damaged { .. } => ErrorCode::KafkaStorageError,
        }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Adds to an error of the disk what was tried and with which file.
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
