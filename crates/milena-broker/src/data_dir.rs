//! The data directory: who holds it, how it was left, and the checkpoints in it.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use milena_log::{
    Opening, StorageError,
    checkpoint::{self, CLEANER_OFFSETS, LOG_STARTS, PartitionName, RECOVERY_POINTS},
    disk::{self, Disk},
};

const LOCK: &str = ".lock";
/// Kafka's name of the file that a clean end leaves behind.
const CLEAN: &str = ".kafka_cleanshutdown";

#[derive(Debug)]
pub(crate) struct DataDir {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    clean: bool,
    recovery_points: BTreeMap<PartitionName, i64>,
    log_starts: BTreeMap<PartitionName, i64>,
    first_dirty: BTreeMap<PartitionName, i64>,
    _lock: Box<dyn Debug + Send + Sync>,
}

/// An offset for each partition, for each purpose.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    pub(crate) recovery_points: BTreeMap<PartitionName, i64>,
    pub(crate) log_starts: BTreeMap<PartitionName, i64>,
    /// Only of logs that are compacted.
    pub(crate) first_dirty: BTreeMap<PartitionName, i64>,
}

#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("{} is used by another broker; stop that one, or choose another directory", path.display())]
    InUse { path: PathBuf },
    #[error("cannot use {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl DataDir {
    /// Takes the directory, creating it if it does not exist.
    pub(crate) fn open(disk: Arc<dyn Disk>, path: &Path) -> Result<Self, DataDirError> {
        let failed = |source| DataDirError::Io {
            path: path.to_owned(),
            source,
        };
        disk.create_dir(path).map_err(failed)?;
        let lock = disk.lock(&path.join(LOCK)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => DataDirError::InUse { path: path.to_owned() },
            _ => failed(error),
        })?;
        let marker = path.join(CLEAN);
        let fresh = !disk.list(path).map_err(failed)?.iter().any(|entry| entry.is_dir);
        let clean = disk.exists(&marker).map_err(failed)?;
        if clean {
            // From here on a crash is possible again.
            disk.remove(&marker).map_err(failed)?;
            disk.sync_dir(path).map_err(failed)?;
        }
        Ok(Self {
            recovery_points: checkpoint::read_offsets(&*disk, &path.join(RECOVERY_POINTS))?,
            log_starts: checkpoint::read_offsets(&*disk, &path.join(LOG_STARTS))?,
            first_dirty: checkpoint::read_offsets(&*disk, &path.join(CLEANER_OFFSETS))?,
            disk,
            path: path.to_owned(),
            clean: clean || fresh,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Whether the broker before this one ended as it should, or there was none.
    pub(crate) fn was_clean(&self) -> bool {
        self.clean
    }

    /// How the log of a partition was left.
    pub(crate) fn opening_of(&self, topic: &str, index: i32) -> Opening {
        let name = (topic.to_owned(), index);
        Opening {
            clean: self.clean,
            recovery_point: self.recovery_points.get(&name).copied().unwrap_or(0),
            log_start_offset: self.log_starts.get(&name).copied().unwrap_or(0),
        }
    }

    /// The partitions that had a checkpoint when the directory was opened.
    pub(crate) fn checkpointed(&self) -> impl Iterator<Item = &PartitionName> {
        self.recovery_points.keys().chain(self.log_starts.keys())
    }

    /// How many bytes the file system has, and how many of them can still be written; `None` if it does not say.
    pub(crate) fn space(&self) -> Option<(i64, i64)> {
        let stat = rustix::fs::statvfs(&self.path).ok()?;
        let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX);
        Some((bytes(stat.f_blocks), bytes(stat.f_bavail)))
    }

    /// Up to where the log of a partition was compacted.
    pub(crate) fn first_dirty_of(&self, topic: &str, index: i32) -> Option<i64> {
        self.first_dirty.get(&(topic.to_owned(), index)).copied()
    }

    /// Writes down where recovery, reading and compaction would begin.
    pub(crate) fn write_checkpoints(&self, checkpoints: &Checkpoints) -> Result<(), StorageError> {
        let write = |name, offsets| checkpoint::write_offsets(&*self.disk, &self.path.join(name), offsets);
        write(RECOVERY_POINTS, &checkpoints.recovery_points)?;
        write(LOG_STARTS, &checkpoints.log_starts)?;
        write(CLEANER_OFFSETS, &checkpoints.first_dirty)
    }

    /// Says to the next broker that all is as it should be.
    pub(crate) fn mark_clean(&self) -> io::Result<()> {
        disk::replace_file(&*self.disk, &self.path.join(CLEAN), b"")
    }
}
