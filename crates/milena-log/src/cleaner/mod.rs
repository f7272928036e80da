//! Compaction: of each key, the last value is kept.
//!
//! A first pass over the dirty part of the log collects the last offset of each key. A second pass, from the start
//! of the log, copies the records that are not superseded into new segments, which then replace the old ones.
//! Appends and reads continue meanwhile.

mod error;
mod filter;
mod key_map;
mod output;
mod range;
mod reader;
mod rebuild;
mod swap;
mod transactions;

use std::{
    ops::ControlFlow,
    sync::{Arc, PoisonError},
};

use bytes::Bytes;
use milena_invariant::{invariant, violated};
use milena_wire::records::{Batch, Batches};

use crate::{config::LogConfig, error::StorageError, log::Log, producers::AbortedTransaction, segment::Segment};
use filter::{Decision, Filter};
use key_map::KeyMap;
use output::Output;
use range::Range;
use reader::Reader;
use rebuild::Rebuilder;
use transactions::Transactions;

pub use error::CompactionError;
pub use range::Dirtiness;
pub(crate) use swap::complete_swaps;

/// Memory limits of compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionLimits {
    /// Bytes for the keys of one round, 32 for each key, and an eighth more while the table grows. If they do
    /// not suffice, another round follows.
    pub map_bytes_max: usize,
}

impl Default for CompactionLimits {
    fn default() -> Self {
        Self {
            map_bytes_max: 128 << 20,
        }
    }
}

/// Result of one round of compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompactionStats {
    /// Everything below is compacted.
    pub first_dirty_offset: i64,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub records_kept: u64,
    pub records_removed: u64,
}

impl Log {
    /// Compacts the part of the log that the topic's settings allow. Returns `None` if there is none, or if
    /// retention interfered. [`Log::dirtiness`] decides whether it is worthwhile.
    pub fn compact(&self, now_ms: i64, limits: CompactionLimits) -> Result<Option<CompactionStats>, StorageError> {
        let _alone = self.compaction.lock().unwrap_or_else(PoisonError::into_inner);
        let config = self.config();
        let range = self.compactable(&config, now_ms);
        if !config.compact || range.end <= range.first_dirty {
            return Ok(None);
        }
        {
            let _layout = self.layout();
            complete_swaps(&self.disk, &self.dir)?;
        }
        let mut reader = Reader::new();
        let aborted = range.view.aborted_transactions(range.start(), range.end)?;
        let (map, map_end) = build_map(&range, &aborted, &mut reader, limits)?;
        let filter = Filter {
            map: &map,
            map_end,
            producers: &range.producers,
            transactions: Transactions::new(aborted),
            now_ms,
            delete_retention_ms: config.delete_retention_ms,
            rebuilder: Rebuilder::new(),
            records_kept: 0,
            records_removed: 0,
        };
        let mut round = Round {
            log: self,
            config: &config,
            reader,
            filter,
            buffer: vec![],
            bytes_before: 0,
            bytes_after: 0,
        };
        round.run(&range)
    }
}

/// Collects the last offset of each key; returns the map and the offset up to which it is complete.
fn build_map(
    range: &Range,
    aborted: &[AbortedTransaction],
    reader: &mut Reader,
    limits: CompactionLimits,
) -> Result<(KeyMap, i64), StorageError> {
    let mut map = KeyMap::new(limits.map_bytes_max, range.dirty_bytes());
    let mut map_end = range.first_dirty;
    // The others have no marker in this part, so they would never end.
    let ahead = aborted
        .iter()
        .filter(|aborted| aborted.last_offset >= range.first_dirty);
    let mut transactions = Transactions::new(ahead.copied().collect());
    let mut rebuilder = Rebuilder::new();
    for segment in range.dirty() {
        let failed = |error| StorageError::compaction(segment, error);
        let found = segment.find(range.first_dirty, segment.size())?;
        let start = found.map_or_else(|| segment.size(), |found| found.position);
        let walked = reader.walk(segment, start, |batch, _| {
            if holds_values(batch, &mut transactions, &mut rebuilder).map_err(failed)? {
                for record in rebuilder
                    .records()
                    .filter(|record| record.offset() >= range.first_dirty)
                {
                    let Some(key) = record.key() else { continue };
                    while !map.insert(key, record.offset()) {
                        if map_end > range.first_dirty {
                            return Ok(ControlFlow::Break(()));
                        }
                        // One batch must fit, or there would never be progress.
                        map.grow();
                    }
                }
            }
            map_end = batch.last_offset() + 1;
            Ok(ControlFlow::Continue(()))
        })?;
        if walked.is_break() {
            return Ok((map, map_end));
        }
    }
    Ok((map, range.end))
}

/// Whether a batch counts for the last values of keys; then it is decoded.
fn holds_values(
    batch: &Batch,
    transactions: &mut Transactions,
    rebuilder: &mut Rebuilder,
) -> Result<bool, CompactionError> {
    if let Batch::V2(batch) = batch {
        let header = batch.header();
        if header.attributes.is_control() {
            // A marker ends the transaction of its producer, whichever way.
            transactions.handle_end(header);
            return Ok(false);
        }
        if transactions.handle_data(header) {
            return Ok(false);
        }
    }
    rebuilder.decode(batch)?;
    Ok(true)
}

/// Reads a rewritten batch back. The original is about to be replaced, so the new one must hold good.
fn read_back(rewritten: &Bytes, original: &Batch) -> Option<Batch> {
    let mut batches = Batches::new(rewritten.clone());
    let batch = batches.next().and_then(Result::ok).filter(|batch| {
        batches.leftover() == 0 && batch.verify().is_ok() && batch.last_offset() == original.last_offset()
    });
    invariant!(batch.is_some(), "rewritten_batch_is_readable");
    batch
}

/// The second pass: segments are rewritten and replaced, group by group.
struct Round<'a> {
    log: &'a Log,
    config: &'a LogConfig,
    reader: Reader,
    filter: Filter<'a>,
    /// For the next output.
    buffer: Vec<u8>,
    bytes_before: u64,
    bytes_after: u64,
}

impl Round<'_> {
    fn run(&mut self, range: &Range) -> Result<Option<CompactionStats>, StorageError> {
        let map_end = self.filter.map_end;
        let count = range.segments.partition_point(|segment| segment.base_offset < map_end);
        let (segments, after) = range.segments.split_at_checked(count).unwrap_or_default();
        let end = after.first().map_or(range.end, |next| next.base_offset);
        for group in range::groups(segments, end, self.config) {
            let Some(new) = self.rewrite(group)? else {
                return Ok(None);
            };
            // Tombstones may go only after all that they outdate, so later segments are not replaced unless all
            // earlier ones were.
            if !self.log.replace(group, new, self.config)? {
                return Ok(None);
            }
        }
        self.log.writer().first_dirty_offset = map_end;
        Ok(Some(CompactionStats {
            first_dirty_offset: map_end,
            bytes_before: self.bytes_before,
            bytes_after: self.bytes_after,
            records_kept: self.filter.records_kept,
            records_removed: self.filter.records_removed,
        }))
    }

    /// Writes the remaining records of some segments to new files, which are removed again on failure.
    fn rewrite(&mut self, group: &[Arc<Segment>]) -> Result<Option<Arc<Segment>>, StorageError> {
        let Some(first) = group.first() else { return Ok(None) };
        let written = self.write(first.base_offset, group);
        if written.is_err() {
            // The first error is the one to report.
            let _ = swap::discard(&*self.log.disk, &self.log.dir, first.base_offset);
        }
        written.map(|new| Some(Arc::new(new)))
    }

    fn write(&mut self, base_offset: i64, group: &[Arc<Segment>]) -> Result<Segment, StorageError> {
        let buffer = std::mem::take(&mut self.buffer);
        let mut output = Output::create(&self.log.disk, &self.log.dir, base_offset, self.config, buffer)?;
        let last = group.iter().rposition(|segment| segment.size() > 0);
        for (place, segment) in group.iter().enumerate() {
            let is_last = Some(place) == last;
            let size = segment.size();
            self.bytes_before += u64::from(size);
            let filter = &mut self.filter;
            let failed = |error| StorageError::compaction(segment, error);
            let _ = self.reader.walk(segment, 0, |batch, after| {
                // The new segment ends where the next one begins, so that recovery sees no gap.
                let needed = is_last && after == size;
                let (decision, aborted) = filter.decide(batch, needed).map_err(failed)?;
                match decision {
                    Decision::Keep => output.push(batch)?,
                    Decision::Remove => {}
                    Decision::Replace(bytes) => {
                        output.push(&read_back(&bytes, batch).ok_or_else(|| {
                            StorageError::violated(&segment.path_of("log"), "rewritten_batch_is_readable")
                        })?)?;
                        filter.rebuilder.recycle(bytes);
                    }
                }
                if let Some(aborted) = aborted {
                    output.push_aborted(aborted);
                }
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let (segment, buffer) = output.finish()?;
        self.bytes_after += u64::from(segment.size());
        self.buffer = buffer;
        Ok(segment)
    }
}

impl Log {
    /// Replaces the segments of a group with the new one; `false` if some of them have been removed meanwhile.
    fn replace(&self, group: &[Arc<Segment>], new: Arc<Segment>, config: &LogConfig) -> Result<bool, StorageError> {
        let _layout = self.layout();
        let base_offset = new.base_offset;
        let (Some(first), Some(end_offset)) = (group.first(), self.end_of(group)) else {
            swap::discard(&*self.disk, &self.dir, base_offset)?;
            return Ok(false);
        };
        for segment in group {
            segment.prepare_removal()?;
        }
        swap::commit(&*self.disk, &self.dir, base_offset)?;
        let mut writer = self.writer();
        if let Some(place) = writer.segments.iter().position(|segment| Arc::ptr_eq(segment, first)) {
            writer.segments.splice(place..place + group.len(), [new]);
        } else {
            // `end_of` has found them, and the layout lock is held since.
            violated!("compacted_segments_are_in_the_log");
        }
        self.publish(&mut writer, config.durability);
        drop(writer);
        swap::complete(&*self.disk, &self.dir, base_offset, end_offset)?;
        Ok(true)
    }

    /// The offset after the group, if the log still has all of its segments. Only the first can have been
    /// removed.
    fn end_of(&self, group: &[Arc<Segment>]) -> Option<i64> {
        let writer = self.writer();
        let first = group.first()?;
        let place = writer.segments.iter().position(|segment| Arc::ptr_eq(segment, first))?;
        writer.segments.get(place + group.len()).map(|next| next.base_offset)
    }
}
