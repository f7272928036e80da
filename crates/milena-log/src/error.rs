//! What can go wrong with files.

use std::{
    io,
    path::{Path, PathBuf},
};

/// A file operation that failed, or a file that is not what it should be.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Writing is refused until there is room again; reading goes on.
    #[error("no room left on the disk of {}", path.display())]
    DiskFull { path: PathBuf },
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
                _ => StorageError::Io { action, path, source },
            }
        })
    }
}
