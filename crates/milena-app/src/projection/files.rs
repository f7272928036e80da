//! Snapshots in files.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use milena_client::consumer::TopicPartition;

use super::{Snapshot, Snapshots};
use crate::handler::BoxError;

/// Snapshots as files in a directory, one per partition. A new snapshot is written beside the old one, synced and
/// renamed, so that a crash leaves one of the two. The first eight bytes are the offset.
///
/// If partitions can move to another machine, the directory must be shared.
#[derive(Debug, Clone)]
pub struct FileSnapshots {
    directory: PathBuf,
}

impl FileSnapshots {
    /// Creates the directory if it is missing.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Topic names are valid file names: they have letters, digits, dots, dashes and underscores.
    fn path(&self, partition: &TopicPartition) -> PathBuf {
        self.directory.join(format!("{partition}.snapshot"))
    }
}

/// The file is not a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} is not a snapshot: it has {bytes} bytes; delete it to start from the first record")]
pub struct BadSnapshot {
    pub path: String,
    pub bytes: usize,
}

impl Snapshots for FileSnapshots {
    async fn load(&self, partition: &TopicPartition) -> Result<Option<Snapshot>, BoxError> {
        let path = self.path(partition);
        tokio::task::spawn_blocking(move || read(&path)).await?
    }

    async fn save(&self, partition: &TopicPartition, snapshot: Snapshot) -> Result<(), BoxError> {
        let path = self.path(partition);
        tokio::task::spawn_blocking(move || write(&path, &snapshot)).await?
    }
}

fn read(path: &Path) -> Result<Option<Snapshot>, BoxError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some((offset, state)) = bytes.split_first_chunk() else {
        let (path, bytes) = (path.display().to_string(), bytes.len());
        return Err(BadSnapshot { path, bytes }.into());
    };
    Ok(Some(Snapshot {
        offset: i64::from_be_bytes(*offset),
        state: state.to_vec(),
    }))
}

fn write(path: &Path, snapshot: &Snapshot) -> Result<(), BoxError> {
    // A previous owner must not overwrite a newer snapshot.
    if read(path)?.is_some_and(|stored| stored.offset > snapshot.offset) {
        return Ok(());
    }
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(&snapshot.offset.to_be_bytes())?;
    file.write_all(&snapshot.state)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    if let Some(directory) = path.parent() {
        File::open(directory)?.sync_all()?;
    }
    Ok(())
}
