//! Kafka's small text files: offsets of partitions, leader epochs, the id of a topic.
//!
//! ```text
//! checkpoint        0            version
//!                   2            number of lines that follow
//!                   letters 0 42 topic, partition, offset; or, for leader epochs: epoch, first offset
//! partition.metadata
//!                   version: 0
//!                   topic_id: AAAAAAAAAAAAAAAAAAAAAQ
//! ```

use std::{collections::BTreeMap, path::Path};

use milena_wire::Uuid;

use crate::{
    disk::{self, Disk},
    error::{Doing, StorageError},
};

/// A partition by topic and number.
pub type PartitionName = (String, i32);

pub const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
pub const LOG_STARTS: &str = "log-start-offset-checkpoint";
pub const CLEANER_OFFSETS: &str = "cleaner-offset-checkpoint";
/// In the folder of a partition; the other checkpoints are in the folder above.
pub const TOPIC_ID: &str = "partition.metadata";

/// Offsets of partitions; none if the file does not exist.
pub fn read_offsets(disk: &dyn Disk, path: &Path) -> Result<BTreeMap<PartitionName, i64>, StorageError> {
    let parse = |line: &str| {
        // A topic name has no space.
        let mut words = line.split(' ');
        let topic = words.next()?.to_owned();
        let partition = words.next()?.parse().ok()?;
        let offset = words.next()?.parse().ok()?;
        words.next().is_none().then_some(((topic, partition), offset))
    };
    Ok(read_lines(disk, path, parse)?.into_iter().collect())
}

pub fn write_offsets(disk: &dyn Disk, path: &Path, offsets: &BTreeMap<PartitionName, i64>) -> Result<(), StorageError> {
    let lines = offsets
        .iter()
        .map(|((topic, partition), offset)| format!("{topic} {partition} {offset}"));
    write_lines(disk, path, lines)
}

/// The first offset of each leader epoch, in order; empty if the file does not exist.
pub(crate) fn read_epochs(disk: &dyn Disk, path: &Path) -> Result<Vec<(i32, i64)>, StorageError> {
    read_lines(disk, path, |line| {
        let (epoch, offset) = line.split_once(' ')?;
        Some((epoch.parse().ok()?, offset.parse().ok()?))
    })
}

pub(crate) fn write_epochs(disk: &dyn Disk, path: &Path, epochs: &[(i32, i64)]) -> Result<(), StorageError> {
    write_lines(
        disk,
        path,
        epochs.iter().map(|(epoch, offset)| format!("{epoch} {offset}")),
    )
}

/// The topic id of a partition folder; `None` if it has none.
pub fn read_topic_id(disk: &dyn Disk, path: &Path) -> Result<Option<Uuid>, StorageError> {
    let Some(text) = read_text(disk, path)? else {
        return Ok(None);
    };
    let id = text.lines().find_map(|line| line.strip_prefix("topic_id: "));
    match id.map(str::parse) {
        Some(Ok(id)) => Ok(Some(id)),
        _ => Err(StorageError::damaged(path, "it holds no topic id")),
    }
}

pub fn write_topic_id(disk: &dyn Disk, path: &Path, id: Uuid) -> Result<(), StorageError> {
    disk::replace_file(disk, path, topic_id_text(id).as_bytes()).doing("write", path)
}

/// Writes the topic id into a new folder. It is not synced, so that the first append does not wait for the disk:
/// after a power cut, the broker knows the id from its catalog and writes it again.
pub(crate) fn add_topic_id(disk: &dyn Disk, dir: &Path, id: Uuid) -> Result<(), StorageError> {
    let path = dir.join(TOPIC_ID);
    if disk.exists(&path).doing("look for", &path)? {
        return Ok(());
    }
    let file = disk.create(&path).doing("create", &path)?;
    let written = file.write_at(topic_id_text(id).as_bytes(), &[], 0);
    if written.is_err() {
        // Removed, so that the next call tries again. The first error is the one to report.
        let _ = disk.remove(&path);
    }
    written.doing("write", &path)
}

fn topic_id_text(id: Uuid) -> String {
    format!("version: 0\ntopic_id: {id}")
}

fn read_text(disk: &dyn Disk, path: &Path) -> Result<Option<String>, StorageError> {
    if !disk.exists(path).doing("look for", path)? {
        return Ok(None);
    }
    let content = disk::read_file(disk, path).doing("read", path)?;
    String::from_utf8(content)
        .map(Some)
        .map_err(|_| StorageError::damaged(path, "it is not text"))
}

fn read_lines<T>(disk: &dyn Disk, path: &Path, parse: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, StorageError> {
    let Some(text) = read_text(disk, path)? else {
        return Ok(vec![]);
    };
    let mut lines = text.lines();
    if lines.next() != Some("0") {
        return Err(StorageError::damaged(path, "its version is not 0"));
    }
    let count: Option<usize> = lines.next().and_then(|line| line.parse().ok());
    let parsed: Option<Vec<T>> = lines.map(parse).collect();
    match parsed {
        Some(parsed) if Some(parsed.len()) == count => Ok(parsed),
        Some(_) => Err(StorageError::damaged(path, "it does not have the lines it announces")),
        None => Err(StorageError::damaged(path, "a line is malformed")),
    }
}

fn write_lines(disk: &dyn Disk, path: &Path, lines: impl ExactSizeIterator<Item = String>) -> Result<(), StorageError> {
    let mut text = format!("0\n{}\n", lines.len());
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    disk::replace_file(disk, path, text.as_bytes()).doing("write", path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::MemoryDisk;

    fn disk_with(content: &str) -> MemoryDisk {
        let disk = MemoryDisk::new();
        disk.create_dir(Path::new("/d")).unwrap();
        disk::replace_file(&disk, Path::new("/d/f"), content.as_bytes()).unwrap();
        disk
    }

    #[test]
    fn offsets_survive_and_a_missing_file_has_none() {
        let disk = disk_with("");
        let path = Path::new("/d/offsets");
        assert!(read_offsets(&disk, path).unwrap().is_empty());
        let offsets = BTreeMap::from([(("a".to_owned(), 0), 7), (("a-b.c".to_owned(), 12), i64::MAX)]);
        write_offsets(&disk, path, &offsets).unwrap();
        assert_eq!(read_offsets(&disk, path).unwrap(), offsets);
    }

    #[test]
    fn damage_is_named() {
        for content in [
            "",
            "1\n0\n",
            "0\n2\na 0 1\n",
            "0\n1\na 0\n",
            "0\n1\na 0 1 2\n",
            "0\nx\n",
            "0\n1\na 0 x\n",
        ] {
            let error = read_offsets(&disk_with(content), Path::new("/d/f")).unwrap_err();
            assert!(matches!(error, StorageError::Damaged { .. }), "{content:?}: {error}");
        }
        assert!(read_topic_id(&disk_with("version: 0"), Path::new("/d/f")).is_err());
    }

    #[test]
    fn topic_ids_survive() {
        let disk = disk_with("");
        let path = Path::new("/d/partition.metadata");
        assert_eq!(read_topic_id(&disk, path).unwrap(), None);
        let id = Uuid::from_bytes([9; 16]);
        write_topic_id(&disk, path, id).unwrap();
        assert_eq!(read_topic_id(&disk, path).unwrap(), Some(id));
    }
}
