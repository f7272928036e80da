//! Replaces segments with a compacted one, so that a crash at any point leaves either the old ones or the new one.
//!
//! ```text
//! 1  .log.cleaned .index.cleaned .timeindex.cleaned .txnindex.cleaned   written and synced: a crash throws them away
//! 2  .log.swap    .index.cleaned .timeindex.cleaned .txnindex.cleaned   from here on a crash goes on instead
//! 3  .log.swap    .index         .timeindex         .txnindex           the files that were replaced are gone
//! 4  .log         .index         .timeindex         .txnindex
//! ```
//!
//! The folder is synced between the steps. Completion is idempotent: files that still have a name of step 2 are
//! renamed, the others were renamed before.

use std::{path::Path, sync::Arc};

use crate::{
    disk::{Disk, with_suffix},
    error::{Doing, StorageError},
    load::remove_if_there,
    segment::{Segment, base_offset_of, file_name},
};

pub(super) const CLEANED: &str = ".cleaned";
const SWAP: &str = ".swap";
const INDEXES: [&str; 4] = ["index", "timeindex", "txnindex", "sums"];
const ENDINGS: [&str; 6] = ["log", "index", "timeindex", "txnindex", "sums", "snapshot"];

/// Completes swaps that a crash, or a disk error, interrupted after the point of no return.
pub(crate) fn complete_swaps(disk: &Arc<dyn Disk>, dir: &Path) -> Result<(), StorageError> {
    if !disk.exists(dir).doing("look for", dir)? {
        return Ok(());
    }
    let mut swaps = vec![];
    for name in names(&**disk, dir)? {
        let Some(name) = name.strip_suffix(SWAP) else { continue };
        if let Some(base_offset) = base_offset_of(name, "log") {
            swaps.push(base_offset);
        } else if INDEXES.iter().any(|ending| base_offset_of(name, ending).is_some()) {
            // Kafka gives this suffix to indexes too.
            let path = dir.join(name);
            disk.rename(&with_suffix(&path, SWAP), &path).doing("rename", &path)?;
        }
    }
    for base_offset in swaps {
        let path = with_suffix(&dir.join(file_name(base_offset, "log")), SWAP);
        let segment = Segment::at(Arc::clone(disk), path, base_offset);
        let mut end_offset = base_offset;
        segment.scan(0, segment.file_size()?, |batch| {
            end_offset = batch.last_offset() + 1;
            false
        })?;
        complete(&**disk, dir, base_offset, end_offset)?;
    }
    Ok(())
}

/// The point of no return, from step 1 to 2.
pub(super) fn commit(disk: &dyn Disk, dir: &Path, base_offset: i64) -> Result<(), StorageError> {
    disk.sync_dir(dir).doing("sync", dir)?;
    let path = dir.join(file_name(base_offset, "log"));
    disk.rename(&with_suffix(&path, CLEANED), &with_suffix(&path, SWAP))
        .doing("rename", &path)?;
    disk.sync_dir(dir).doing("sync", dir)
}

/// From step 2 to 4. The new segment holds the offsets from `base_offset` up to `end_offset`.
pub(super) fn complete(disk: &dyn Disk, dir: &Path, base_offset: i64, end_offset: i64) -> Result<(), StorageError> {
    for name in names(disk, dir)? {
        let replaced = ENDINGS
            .iter()
            .find_map(|ending| base_offset_of(&name, ending))
            .is_some_and(|offset| offset > base_offset && offset < end_offset);
        if replaced {
            remove_if_there(disk, &dir.join(name))?;
        }
    }
    for ending in INDEXES {
        let path = dir.join(file_name(base_offset, ending));
        let new = with_suffix(&path, CLEANED);
        if disk.exists(&new).doing("look for", &new)? {
            disk.rename(&new, &path).doing("rename", &path)?;
        }
    }
    disk.sync_dir(dir).doing("sync", dir)?;
    let path = dir.join(file_name(base_offset, "log"));
    disk.rename(&with_suffix(&path, SWAP), &path).doing("rename", &path)?;
    disk.sync_dir(dir).doing("sync", dir)
}

/// Removes the files of step 1.
pub(super) fn discard(disk: &dyn Disk, dir: &Path, base_offset: i64) -> Result<(), StorageError> {
    for ending in ENDINGS {
        remove_if_there(disk, &with_suffix(&dir.join(file_name(base_offset, ending)), CLEANED))?;
    }
    Ok(())
}

fn names(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>, StorageError> {
    let entries = disk.list(dir).doing("list", dir)?;
    Ok(entries.into_iter().map(|entry| entry.name).collect())
}
