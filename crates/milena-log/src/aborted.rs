//! The transaction index: aborted transactions of a segment, which `read_committed` consumers skip.
//!
//! ```text
//! .txnindex  34 bytes each: version i16 = 0, producer id i64, first offset i64, last offset i64, last stable offset i64
//! ```

use std::path::Path;

use bytes::{Buf, BufMut};

use crate::{
    disk::{self, Disk},
    error::{Doing, StorageError},
    producers::AbortedTransaction,
};

const ENTRY_SIZE: usize = 34;
const VERSION: i16 = 0;

/// Adds an entry at the end of the file, creating it if there is none.
pub(crate) fn append(disk: &dyn Disk, path: &Path, aborted: &AbortedTransaction) -> Result<(), StorageError> {
    let file = match disk.exists(path).doing("look for", path)? {
        true => disk.open(path).doing("open", path)?,
        false => disk.create(path).doing("create", path)?,
    };
    let size = file.size().doing("measure", path)?;
    // A crash may have cut the last entry short.
    let end = size - size % ENTRY_SIZE as u64;
    file.write_at(&encode(aborted), &[], end).doing("write", path)?;
    file.sync().doing("sync", path)
}

/// Replaces the content of the file with these entries, atomically.
pub(crate) fn replace(disk: &dyn Disk, path: &Path, all: &[AbortedTransaction]) -> Result<(), StorageError> {
    disk::replace_file(disk, path, &encode_all(all)).doing("write", path)
}

/// All entries; none if there is no file. An entry cut short at the end is dropped: recovery rewrites it.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<Vec<AbortedTransaction>, StorageError> {
    if !disk.exists(path).doing("look for", path)? {
        return Ok(vec![]);
    }
    let content = disk::read_file(disk, path).doing("read", path)?;
    content
        .chunks_exact(ENTRY_SIZE)
        .map(|entry| decode(entry).ok_or_else(|| StorageError::damaged(path, "an entry has an unknown version")))
        .collect()
}

/// The content of a file with these entries.
pub(crate) fn encode_all(all: &[AbortedTransaction]) -> Vec<u8> {
    all.iter().flat_map(encode).collect()
}

/// The entries of a file; `None` if it is not whole.
pub(crate) fn decode_all(content: &[u8]) -> Option<Vec<AbortedTransaction>> {
    let entries = content.chunks_exact(ENTRY_SIZE);
    if !entries.remainder().is_empty() {
        return None;
    }
    entries.map(decode).collect()
}

fn encode(aborted: &AbortedTransaction) -> Vec<u8> {
    let mut entry = Vec::with_capacity(ENTRY_SIZE);
    entry.put_i16(VERSION);
    entry.put_i64(aborted.producer_id);
    entry.put_i64(aborted.first_offset);
    entry.put_i64(aborted.last_offset);
    entry.put_i64(aborted.last_stable_offset);
    entry
}

fn decode(mut entry: &[u8]) -> Option<AbortedTransaction> {
    (entry.try_get_i16().ok()? == VERSION).then_some(())?;
    Some(AbortedTransaction {
        producer_id: entry.try_get_i64().ok()?,
        first_offset: entry.try_get_i64().ok()?,
        last_offset: entry.try_get_i64().ok()?,
        last_stable_offset: entry.try_get_i64().ok()?,
    })
}
