//! The data directory: its lock, its clean mark, and the checkpoints in it.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use milena_log::{
    LogMark, Opening, StorageError,
    checkpoint::{self, CLEANER_OFFSETS, LOG_STARTS, PartitionName, RECOVERY_POINTS, TOPIC_ID},
    disk::{self, Disk},
};
use milena_wire::Uuid;

use crate::{
    log_ends::{LogEnds, Marks, PartitionKey},
    metadata_log::{Evidence, OnLoss},
    topics::name_problem,
};

pub(crate) const LOCK: &str = ".lock";
/// Kafka's name of the file that a clean shutdown leaves behind.
pub(crate) const CLEAN: &str = ".kafka_cleanshutdown";

#[derive(Debug)]
pub(crate) struct DataDir {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    clean: bool,
    on_loss: OnLoss,
    /// Folders of partitions, whether their topics are known or not.
    folders: Vec<String>,
    /// Folders that the previous run had in use, with the ids of their topics.
    in_use: Vec<(String, Uuid)>,
    recovery_points: BTreeMap<PartitionName, i64>,
    log_starts: BTreeMap<PartitionName, i64>,
    first_dirty: BTreeMap<PartitionName, i64>,
    /// The ends of the logs when the previous process ended.
    marks: Marks,
    ends: Arc<LogEnds>,
    _lock: Box<dyn Debug + Send + Sync>,
}

/// The checkpoints: an offset for each partition, for each purpose.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    pub(crate) recovery_points: BTreeMap<PartitionName, i64>,
    pub(crate) log_starts: BTreeMap<PartitionName, i64>,
    /// Of compacted logs only.
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
    /// Locks the directory, and creates it if it does not exist. Nothing in it changes before [`DataDir::begin`].
    pub(crate) fn open(disk: Arc<dyn Disk>, path: &Path, on_loss: OnLoss) -> Result<Self, DataDirError> {
        let failed = |source| DataDirError::Io {
            path: path.to_owned(),
            source,
        };
        disk.create_dir(path).map_err(failed)?;
        let lock = disk.lock(&path.join(LOCK)).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => DataDirError::InUse { path: path.to_owned() },
            _ => failed(error),
        })?;
        let entries = disk.list(path).map_err(failed)?;
        let fresh = !entries.iter().any(|entry| entry.is_dir);
        let mut folders: Vec<String> = entries
            .into_iter()
            .filter(|entry| entry.is_dir && partition_of_folder(&entry.name).is_some())
            .map(|entry| entry.name)
            .collect();
        folders.sort();
        let clean = disk.exists(&path.join(CLEAN)).map_err(failed)?;
        let marks = Marks::read(&*disk, path).map_err(failed)?;
        if marks.damaged > 0 {
            tracing::warn!(
                event = "log_ends_damaged",
                entries = marks.damaged,
                "entries of the log ends are damaged; these partitions are opened by Kafka's checkpoints instead"
            );
        }
        Ok(Self {
            recovery_points: read_checkpoint(&*disk, path, RECOVERY_POINTS)?,
            log_starts: read_checkpoint(&*disk, path, LOG_STARTS)?,
            first_dirty: read_checkpoint(&*disk, path, CLEANER_OFFSETS)?,
            ends: LogEnds::create(Arc::clone(&disk), path).map_err(failed)?,
            in_use: in_use(&*disk, path, &folders, &marks),
            marks,
            folders,
            on_loss,
            disk,
            path: path.to_owned(),
            clean: clean || fresh,
            _lock: lock,
        })
    }

    /// Removes the clean mark: from here on a crash is possible.
    pub(crate) fn begin(&self) -> io::Result<()> {
        let marker = self.path.join(CLEAN);
        if self.disk.exists(&marker)? {
            self.disk.remove(&marker)?;
            self.disk.sync_dir(&self.path)?;
        }
        Ok(())
    }

    /// The folders of partitions that existed at the start.
    pub(crate) fn folders(&self) -> &[String] {
        &self.folders
    }

    /// Evidence in the directory of topics that the metadata must have.
    pub(crate) fn evidence(&self) -> Evidence<'_> {
        Evidence {
            folders: &self.folders,
            in_use: &self.in_use,
        }
    }

    pub(crate) fn on_loss(&self) -> OnLoss {
        self.on_loss
    }

    /// The ledger of the ends of all logs.
    pub(crate) fn ends(&self) -> &Arc<LogEnds> {
        &self.ends
    }

    /// The end of the log of a partition, if it is known.
    pub(crate) fn mark_of(&self, key: PartitionKey) -> Option<LogMark> {
        self.marks.of.get(&key).copied()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Whether the previous run was shut down cleanly, or there was none.
    pub(crate) fn was_clean(&self) -> bool {
        self.clean
    }

    /// The state in which the log of a partition was left. Entries of the log ends have a checksum; Kafka's checkpoints have none.
    pub(crate) fn opening_of(&self, topic: &str, key: PartitionKey) -> Opening {
        let name = (topic.to_owned(), key.1);
        let known = self.mark_of(key);
        let or = |offsets: &BTreeMap<PartitionName, i64>| offsets.get(&name).copied().unwrap_or(0);
        Opening {
            clean: self.clean,
            recovery_point: known.map_or_else(|| or(&self.recovery_points), |known| known.synced_offset),
            log_start_offset: known.map_or_else(|| or(&self.log_starts), |known| known.log_start_offset),
            known,
            accept_loss: self.on_loss == OnLoss::Accept,
        }
    }

    /// The checkpoints of a partition at the start.
    pub(crate) fn checkpoints_of(&self, name: &PartitionName) -> (Option<i64>, Option<i64>, Option<i64>) {
        let of = |offsets: &BTreeMap<PartitionName, i64>| offsets.get(name).copied();
        (of(&self.recovery_points), of(&self.log_starts), of(&self.first_dirty))
    }

    /// The partitions that had a checkpoint when the directory was opened.
    pub(crate) fn checkpointed(&self) -> impl Iterator<Item = &PartitionName> {
        self.recovery_points.keys().chain(self.log_starts.keys())
    }

    /// Size and free space of the file system in bytes; `None` if it does not report them.
    pub(crate) fn space(&self) -> Option<(i64, i64)> {
        let stat = rustix::fs::statvfs(&self.path).ok()?;
        let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(stat.f_frsize)).unwrap_or(i64::MAX);
        Some((bytes(stat.f_blocks), bytes(stat.f_bavail)))
    }

    /// The offset up to which the log of a partition was compacted.
    pub(crate) fn first_dirty_of(&self, topic: &str, index: i32) -> Option<i64> {
        self.first_dirty.get(&(topic.to_owned(), index)).copied()
    }

    /// Writes the checkpoints: where recovery, reading and compaction begin.
    pub(crate) fn write_checkpoints(&self, checkpoints: &Checkpoints) -> Result<(), StorageError> {
        let write = |name, offsets| checkpoint::write_offsets(&*self.disk, &self.path.join(name), offsets);
        self.ends.sync().map_err(|source| StorageError::Io {
            action: "sync",
            path: self.path.join(crate::log_ends::FILE),
            source,
        })?;
        write(RECOVERY_POINTS, &checkpoints.recovery_points)?;
        write(LOG_STARTS, &checkpoints.log_starts)?;
        write(CLEANER_OFFSETS, &checkpoints.first_dirty)
    }

    /// Writes the mark of a clean shutdown for the next start.
    pub(crate) fn mark_clean(&self) -> io::Result<()> {
        disk::replace_file(&*self.disk, &self.path.join(CLEAN), b"")
    }
}

/// The folders in the log ends, each with the id of its topic.
fn in_use(disk: &dyn Disk, dir: &Path, folders: &[String], marks: &Marks) -> Vec<(String, Uuid)> {
    let noted = folders.iter().filter_map(|folder| {
        let (_, index) = partition_of_folder(folder)?;
        let id = checkpoint::read_topic_id(disk, &dir.join(folder).join(TOPIC_ID)).ok()??;
        marks.of.contains_key(&(id, index)).then(|| (folder.clone(), id))
    });
    noted.collect()
}

/// Reads a checkpoint file. A file that cannot be read counts as empty, since logs can be opened without it.
fn read_checkpoint(disk: &dyn Disk, dir: &Path, name: &str) -> Result<BTreeMap<PartitionName, i64>, StorageError> {
    match checkpoint::read_offsets(disk, &dir.join(name)) {
        Err(StorageError::Damaged { path, reason }) => {
            tracing::warn!(
                event = "checkpoint_damaged",
                file = %path.display(),
                %reason,
                "a checkpoint file cannot be read; logs are opened without it, and it is written anew"
            );
            Ok(BTreeMap::new())
        }
        read => read,
    }
}

/// Topic and partition of a folder name; `None` if it is not that of a partition.
pub(crate) fn partition_of_folder(name: &str) -> Option<(&str, i32)> {
    let (topic, number) = name.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && name_problem(topic).is_none()).then_some((topic, number.parse().ok()?))
}
