//! The state of producers after a start: a snapshot, and the batches behind it.

use std::{path::PathBuf, sync::Arc};

use milena_wire::{
    pool::BufferPool,
    records::{Batch, ControlRecord, RecordDecoder, RecordSet},
};

use super::{Loader, WINDOW, remove_if_there};
use crate::{
    error::{Doing, StorageError},
    producers::{AbortedTransaction, Producers},
    segment::{Segment, base_offset_of},
    snapshot,
};

impl Loader<'_> {
    /// The state of producers: the newest snapshot that can be read, and all batches after it.
    pub(super) fn producers(
        &self,
        names: &[String],
        segments: &[Arc<Segment>],
        end_offset: i64,
    ) -> Result<Producers, StorageError> {
        let first = segments.first().map_or(end_offset, |segment| segment.base_offset);
        let mut newest = None;
        let mut removed = false;
        for (offset, path) in self.snapshots(names) {
            if offset <= end_offset
                && let Ok(read) = snapshot::read(&**self.disk, &path)
            {
                newest = Some((read, offset));
                break;
            }
            // Unreadable, or beyond the end that the crash left.
            remove_if_there(&**self.disk, &path)?;
            removed = true;
        }
        if removed {
            // Else another crash could bring it back when the log has grown to its offset in another way.
            self.disk.sync_dir(self.dir).doing("sync", self.dir)?;
        }
        let (mut producers, from) = newest.unwrap_or_else(|| (Producers::default(), first));
        if let Some(read) = self.read.first().copied().filter(|read| *read < from) {
            self.rebuild_aborted(names, segments, read)?;
        }
        self.replay_from(&mut producers, segments, from)?;
        Ok(producers)
    }

    /// Finds the aborted transactions of segments that were read again and precede the newest snapshot.
    fn rebuild_aborted(&self, names: &[String], segments: &[Arc<Segment>], read: i64) -> Result<(), StorageError> {
        let before = self
            .snapshots(names)
            .filter(|(offset, _)| *offset <= read)
            .find_map(|(offset, path)| Some((snapshot::read(&**self.disk, &path).ok()?, offset)));
        let (mut producers, from) = before.unwrap_or_else(|| (Producers::default(), i64::MIN));
        self.replay_from(&mut producers, segments, from)
    }

    /// The snapshots of a log, the newest first.
    fn snapshots<'b>(&'b self, names: &'b [String]) -> impl Iterator<Item = (i64, PathBuf)> + 'b {
        let offsets = names
            .iter()
            .rev()
            .filter_map(|name| Some((base_offset_of(name, "snapshot")?, name)));
        offsets.map(|(offset, name)| (offset, self.dir.join(name)))
    }

    fn replay_from(&self, producers: &mut Producers, segments: &[Arc<Segment>], from: i64) -> Result<(), StorageError> {
        let after = segments.partition_point(|segment| segment.base_offset <= from);
        let mut replayed = segments.iter().skip(after.saturating_sub(1));
        replayed.try_for_each(|segment| self.replay(producers, segment, from))
    }

    fn replay(&self, producers: &mut Producers, segment: &Segment, from: i64) -> Result<(), StorageError> {
        let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 20);
        let mut set = RecordSet::default();
        let mut aborts = vec![];
        let start = segment
            .find(from, segment.size())?
            .map_or_else(|| segment.size(), |found| found.position);
        segment.scan_by(WINDOW, start, segment.size(), |batch| {
            let Batch::V2(batch) = batch else { return false };
            let header = batch.header();
            if !header.attributes.is_control() {
                producers.apply(header);
            } else if batch.decode_into(&mut decoder, &mut set).is_ok()
                && let Some(Ok(marker)) = set.get(0).map(|record| ControlRecord::parse(&record))
            {
                aborts.extend(producers.apply_marker(header, marker));
            }
            false
        })?;
        if self.read.contains(&segment.base_offset) && from <= segment.base_offset {
            segment.replace_aborted(aborts)?;
            return segment.write_indexes();
        }
        self.complete_aborts(segment, &aborts)
    }

    /// Adds the aborted transactions that the index of a segment lacks because of a crash.
    fn complete_aborts(&self, segment: &Segment, aborts: &[AbortedTransaction]) -> Result<(), StorageError> {
        for aborted in aborts {
            // By its marker, because compaction may have removed the first records of the transaction.
            let known = segment.aborted(|known| known.last_offset == aborted.last_offset)?;
            if known.is_empty() {
                segment.add_aborted(*aborted);
            }
        }
        segment.complete_aborted()
    }
}
