//! Reads: an immutable view of a log, shared by any number of readers while appends continue.

use std::{path::PathBuf, sync::Arc};

use milena_wire::{
    compression::DecompressError,
    pool::BufferPool,
    records::{Batch, BatchError, BatchProblem, RecordDecoder, RecordSet},
};

use crate::{
    epochs::LeaderEpochs,
    error::StorageError,
    producers::AbortedTransaction,
    segment::{Found, Segment},
    slice::FileSlice,
    survey,
};

/// The most that a search by time decompresses of one batch.
const DECOMPRESSED_MAX: usize = 64 << 20;

/// A log at one moment. Segments that retention or compaction has removed since remain readable through it.
#[derive(Debug, Clone)]
pub struct LogView {
    /// Never empty; the last one is written to.
    pub(crate) segments: Arc<[Arc<Segment>]>,
    pub log_start_offset: i64,
    /// Consumers read the records below.
    pub high_watermark: i64,
    /// `read_committed` consumers read the records below.
    pub last_stable_offset: i64,
    pub log_end_offset: i64,
    /// Size of the last segment at that moment.
    pub(crate) active_size: u32,
    pub(crate) epochs: Arc<LeaderEpochs>,
    /// The folder and the reason, of a log that was not opened.
    pub(crate) offline: Option<(PathBuf, Arc<str>)>,
}

/// The records that a reader may see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
}

/// Why there is nothing to read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("offset {offset} is not between {start} and {end}")]
    OutOfRange { offset: i64, start: i64, end: i64 },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// A record's offset and timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetAndTime {
    pub offset: i64,
    pub timestamp: i64,
}

/// A batch, the segment it is in, and how much of that a view knows.
struct Place<'a> {
    segment: &'a Segment,
    found: Found,
    size: u32,
}

impl LogView {
    /// Fails if the log is offline.
    pub fn check_online(&self) -> Result<(), StorageError> {
        match &self.offline {
            None => Ok(()),
            Some((dir, reason)) => Err(StorageError::offline(dir, reason)),
        }
    }

    /// The offset at which a reader must stop.
    pub fn end_for(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::ReadUncommitted => self.high_watermark,
            Isolation::ReadCommitted => self.last_stable_offset,
        }
    }

    /// The end offset of a leader epoch, and the epoch that it belongs to: the largest one not above the
    /// requested one. `leading` is the current leader's epoch. `None` if the epoch is newer than that.
    pub fn end_of_epoch(&self, epoch: i32, leading: i32) -> Option<(i32, i64)> {
        self.epochs.end_offset(epoch, leading, self.log_end_offset)
    }

    /// The leader epoch that wrote an offset.
    pub fn epoch_at(&self, offset: i64) -> Option<i32> {
        self.epochs.epoch_at(offset)
    }

    /// Batches from the one that holds `offset` on: at most `len_max` bytes, but at least one batch if there is any.
    /// `None` if there is nothing to see yet.
    pub fn read(&self, offset: i64, len_max: usize, isolation: Isolation) -> Result<Option<FileSlice>, ReadError> {
        self.check_online()?;
        let (start, end) = (self.log_start_offset, self.log_end_offset);
        if !(start..=end).contains(&offset) {
            return Err(ReadError::OutOfRange { offset, start, end });
        }
        let end = self.end_for(isolation);
        if offset >= end {
            return Ok(None);
        }
        let Some(place) = self.find(offset)? else {
            return Ok(None);
        };
        self.check_order(&place, offset)?;
        if place.found.batch.last_offset() >= end {
            return Ok(None);
        }
        let stop = self.stop_position(&place, end)?;
        Ok(Some(place.segment.slice(&place.found, len_max, stop)?))
    }

    /// Refuses a batch with impossible offsets: the checksum does not cover the base offset, and is not
    /// verified here.
    fn check_order(&self, place: &Place<'_>, offset: i64) -> Result<(), StorageError> {
        let (first, last) = (
            survey::first_offset(&place.found.batch),
            place.found.batch.last_offset(),
        );
        let after = place.found.position + place.found.batch.size() as u32;
        let next = match first > offset && after < place.size {
            true => survey::next_offset(place.segment, after),
            false => None,
        };
        match last >= self.log_end_offset || next.is_some_and(|next| next <= last) {
            true => {
                let reason = format!(
                    "the batch at byte {} has offsets {first} to {last} where {offset} is expected",
                    place.found.position
                );
                Err(StorageError::damaged(&place.segment.path_of("log"), reason))
            }
            false => Ok(()),
        }
    }

    /// The first batch that ends at or after `offset`.
    fn find(&self, offset: i64) -> Result<Option<Place<'_>>, StorageError> {
        let after = self.segments.partition_point(|segment| segment.base_offset <= offset);
        let first = after.saturating_sub(1);
        for (place, segment) in self.segments.iter().enumerate().skip(first) {
            let size = self.size_of(place);
            if let Some(found) = segment.find(offset, size)? {
                return Ok(Some(Place { segment, found, size }));
            }
        }
        Ok(None)
    }

    /// The position in the segment at which the batches visible to a reader end.
    fn stop_position(&self, place: &Place<'_>, end: i64) -> Result<u32, StorageError> {
        if end >= self.log_end_offset {
            return Ok(place.size);
        }
        // The first batch that is not to be seen, if it is in this segment.
        let hidden = place.segment.find(end, place.size)?;
        Ok(hidden
            .map_or(place.size, |hidden| hidden.position)
            .max(place.found.position))
    }

    fn size_of(&self, place: usize) -> u32 {
        match self.segments.get(place) {
            Some(_) if place + 1 == self.segments.len() => self.active_size,
            Some(segment) => segment.size(),
            None => 0,
        }
    }

    /// The first record that is as late as `timestamp`, in the order of offsets.
    pub fn offset_for_time(&self, timestamp: i64) -> Result<Option<OffsetAndTime>, StorageError> {
        self.check_online()?;
        for (place, segment) in self.segments.iter().enumerate() {
            if segment.largest_timestamp().is_none_or(|latest| latest < timestamp) {
                continue;
            }
            let wanted =
                |record: OffsetAndTime| record.timestamp >= timestamp && record.offset >= self.log_start_offset;
            let start = segment.position_of_time(timestamp);
            if let Some(record) = self.search(segment, start, self.size_of(place), timestamp, wanted)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The first of the records with the largest timestamp.
    pub fn latest_record(&self) -> Result<Option<OffsetAndTime>, StorageError> {
        self.check_online()?;
        let latest = self
            .segments
            .iter()
            .enumerate()
            .filter_map(|(place, segment)| Some((segment.latest()?.0, place)));
        // Of equal timestamps, the first.
        let Some((timestamp, place)) = latest.max_by_key(|(timestamp, place)| (*timestamp, std::cmp::Reverse(*place)))
        else {
            return Ok(None);
        };
        let Some(segment) = self.segments.get(place) else {
            return Ok(None);
        };
        let start = segment.position_of_time(timestamp);
        self.search(segment, start, self.size_of(place), timestamp, |record| {
            record.timestamp == timestamp
        })
    }

    /// The first record from `start` on that `wanted` accepts, among batches that are late enough.
    fn search(
        &self,
        segment: &Segment,
        start: u32,
        end: u32,
        timestamp: i64,
        wanted: impl Fn(OffsetAndTime) -> bool,
    ) -> Result<Option<OffsetAndTime>, StorageError> {
        let mut decoder = RecordDecoder::new(BufferPool::new(1 << 20), DECOMPRESSED_MAX);
        let mut set = RecordSet::default();
        let mut position = start;
        let late_enough = |batch: &Batch| match batch {
            Batch::V2(batch) => batch.header().max_timestamp >= timestamp,
            Batch::Legacy(_) => true,
        };
        while let Some(found) = segment.scan(position, end, late_enough)? {
            position = found.position + found.batch.size() as u32;
            if let Err(error) = found.batch.decode_into(&mut decoder, &mut set) {
                let Some(mut whole) = too_large(&found.batch, &error) else {
                    return Err(StorageError::damaged(&segment.path_of("log"), error.to_string()));
                };
                whole.offset = whole.offset.max(self.log_start_offset);
                if wanted(whole) {
                    return Ok(Some(whole));
                }
                continue;
            }
            let mut records = set.iter().map(|record| OffsetAndTime {
                offset: record.offset(),
                timestamp: record.timestamp(),
            });
            if let Some(record) = records.find(|record| wanted(*record)) {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// The transactions that a reader of records from `from` up to `to` must leave out, by their first offset.
    pub fn aborted_transactions(&self, from: i64, to: i64) -> Result<Vec<AbortedTransaction>, StorageError> {
        let mut aborted = vec![];
        let after = self.segments.partition_point(|segment| segment.base_offset <= from);
        for segment in self.segments.iter().skip(after.saturating_sub(1)) {
            aborted.extend(segment.aborted(|entry| entry.last_offset >= from && entry.first_offset < to)?);
        }
        aborted.sort_by_key(|entry| entry.first_offset);
        Ok(aborted)
    }

    /// Bytes of all segments.
    pub fn size(&self) -> u64 {
        (0..self.segments.len())
            .map(|place| u64::from(self.size_of(place)))
            .sum()
    }
}

/// The start of a batch that decompresses to more than a search may hold in memory: its records are not looked at.
fn too_large(batch: &Batch, error: &BatchError) -> Option<OffsetAndTime> {
    let is_too_large = matches!(
        error.problem,
        BatchProblem::Decompress(DecompressError::TooLarge { .. })
    );
    match batch {
        Batch::V2(batch) if is_too_large => Some(OffsetAndTime {
            offset: batch.header().base_offset,
            timestamp: batch.header().max_timestamp,
        }),
        _ => None,
    }
}
