//! Snapshots as files.

use std::{
    fs::{self, File},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
};

use milena_client::consumer::TopicPartition;

use super::{Snapshot, Snapshots};
use crate::handler::BoxError;

/// A file for each partition in one directory. It is written beside the old one, made durable, and then takes its place, so
/// that a crash leaves one or the other. The first eight bytes are the offset.
///
/// Files are for one machine: if partitions can move to another, the directory must be shared.
#[derive(Debug, Clone)]
pub struct FileSnapshots {
    directory: PathBuf,
}

impl FileSnapshots {
    /// Makes the directory if it is not there.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    /// Names of topics are names of files: they have letters, digits, dots, dashes and underscores.
    fn path(&self, partition: &TopicPartition) -> PathBuf {
        self.directory.join(format!("{partition}.snapshot"))
    }
}

/// A file that is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path} is no snapshot: it has {bytes} bytes; take it away to begin with the first record")]
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
    // One that was the owner until a moment ago must not take a newer one back.
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
