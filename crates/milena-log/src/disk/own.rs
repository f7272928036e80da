//! A log's access to its files, which ends when the log is retired.

use std::{
    fmt::Debug,
    io,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use super::{DirEntry, Disk, DiskFile};

/// The disk of one log. After [`OwnDisk::retire`], every operation on a name fails, because the folder may belong
/// to another log by then. Open files stay open: they belong to this log, whichever file has their names now.
#[derive(Debug)]
pub(crate) struct OwnDisk {
    disk: Arc<dyn Disk>,
    /// Held for reading while something is done with a name, so that retiring waits for it.
    retired: RwLock<bool>,
}

/// Error of every operation on a name after the log was retired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the log is retired")]
pub(crate) struct Retired;

impl OwnDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self {
            disk,
            retired: RwLock::new(false),
        }
    }

    /// Waits for running operations on names, and refuses all later ones.
    pub(crate) fn retire(&self) {
        *self.retired.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Refuses if the log is retired.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.unless_retired(|_| Ok(()))
    }

    fn unless_retired<T>(&self, act: impl FnOnce(&dyn Disk) -> io::Result<T>) -> io::Result<T> {
        let retired = self.retired.read().unwrap_or_else(PoisonError::into_inner);
        if *retired {
            return Err(io::Error::other(Retired));
        }
        act(&*self.disk)
    }
}

impl Disk for OwnDisk {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.unless_retired(|disk| disk.open(path))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.unless_retired(|disk| disk.create(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.unless_retired(|disk| disk.exists(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.unless_retired(|disk| disk.list(dir))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.unless_retired(|disk| disk.create_dir(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.unless_retired(|disk| disk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.unless_retired(|disk| disk.remove(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.unless_retired(|disk| disk.remove_dir(dir))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.unless_retired(|disk| disk.sync_dir(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Debug + Send + Sync>> {
        self.unless_retired(|disk| disk.lock(path))
    }
}
