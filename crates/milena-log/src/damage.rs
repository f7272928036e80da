//! Damage found while opening a log: missing offsets, and the files in which cut-off bytes are preserved.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use milena_wire::records::{Attributes, BATCH_OVERHEAD, BatchHeader, HEADER_SIZE, NO_PRODUCER, NO_SEQUENCE};

use crate::{
    disk::{self, Disk},
    error::{Doing, StorageError},
    segment::Segment,
};

/// Bytes per copy.
const WINDOW: usize = 1 << 20;

/// The outcome of opening a log: the damage that was found, and how much was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// In the order in which it was found.
    pub damage: Vec<Damage>,
    /// Segments that were read from start to end.
    pub segments_read: usize,
    pub bytes_read: u64,
}

/// One piece of damage, and how it was repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The first offset that is missing.
    pub from_offset: i64,
    /// The first offset from there on that is not missing; the same if no record is missing.
    pub to_offset: i64,
    /// Bytes that were taken out of the log.
    pub bytes: u64,
    /// Intact records among those bytes.
    pub records: u64,
    pub reason: String,
    /// Files that preserve the bytes.
    pub kept: Vec<PathBuf>,
}

impl Damage {
    /// Whether records are missing that readers may have seen.
    pub fn is_loss(&self) -> bool {
        self.to_offset > self.from_offset
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_loss() {
            true => write!(f, "offsets {} to {} are missing", self.from_offset, self.to_offset - 1)?,
            false => write!(
                f,
                "no record is missing; an unfinished write after offset {}",
                self.from_offset - 1
            )?,
        }
        write!(f, ": {}", self.reason)?;
        if self.bytes > 0 {
            write!(f, "; {} bytes cut", self.bytes)?;
        }
        if self.records > 0 {
            write!(f, ", among them {} whole records", self.records)?;
        }
        for path in &self.kept {
            write!(f, ", kept in {}", path.display())?;
        }
        Ok(())
    }
}

/// Copies a part of a segment's file to a file beside it, which is never removed, and syncs it.
pub(crate) fn keep_part(disk: &dyn Disk, segment: &Segment, from: u32, to: u32) -> Result<PathBuf, StorageError> {
    let path = free_name(disk, &segment.path_of("log"), from)?;
    let file = disk.create(&path).doing("create", &path)?;
    let mut written = 0;
    while from + written < to {
        let bytes = segment.read(from + written, WINDOW.min((to - from - written) as usize))?;
        if bytes.is_empty() {
            break;
        }
        file.write_at(&bytes, &[], u64::from(written)).doing("write", &path)?;
        written += bytes.len() as u32;
    }
    file.sync().doing("sync", &path)?;
    Ok(path)
}

/// Renames the file of a segment, so that it no longer counts as one.
pub(crate) fn keep_whole(disk: &dyn Disk, segment: &Segment) -> Result<PathBuf, StorageError> {
    let log = segment.path_of("log");
    let path = free_name(disk, &log, 0)?;
    disk.rename(&log, &path).doing("rename", &log)?;
    Ok(path)
}

/// A name for damaged bytes from a position of a file that no file has yet.
fn free_name(disk: &dyn Disk, log: &Path, position: u32) -> Result<PathBuf, StorageError> {
    let first = disk::with_suffix(log, &format!(".damaged-{position}"));
    let mut path = first.clone();
    let mut number = 2;
    while disk.exists(&path).doing("look for", &path)? {
        path = disk::with_suffix(&first, &format!(".{number}"));
        number += 1;
    }
    Ok(path)
}

/// Batches without records, for offsets that must not be assigned again. Readers skip them, like batches that
/// compaction has emptied.
pub(crate) fn fillers(from: i64, to: i64, leader_epoch: i32) -> Vec<BatchHeader> {
    let mut fillers = vec![];
    let mut base_offset = from;
    while base_offset < to {
        let last_offset_delta = i32::try_from(to - base_offset - 1).unwrap_or(i32::MAX);
        let mut header = BatchHeader {
            base_offset,
            length: (HEADER_SIZE - BATCH_OVERHEAD) as i32,
            partition_leader_epoch: leader_epoch,
            crc: 0,
            attributes: Attributes::default(),
            last_offset_delta,
            base_timestamp: -1,
            max_timestamp: -1,
            producer_id: NO_PRODUCER,
            producer_epoch: -1,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
        };
        header.crc = header.compute_crc(&[]);
        base_offset = header.last_offset() + 1;
        fillers.push(header);
    }
    fillers
}
