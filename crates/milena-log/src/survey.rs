//! Scans a segment for recovery: intact batches, damage, and intact batches behind the damage.

use bytes::Bytes;
use milena_wire::records::{BATCH_OVERHEAD, Batch, BatchHeader, HEADER_SIZE};

use crate::{error::StorageError, segment::Segment};

/// Bytes per read.
const WINDOW: usize = 1 << 20;
/// Position of the magic byte, which holds the format of a batch.
const MAGIC_AT: usize = 16;

/// Limits of a survey.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// The first offset that the segment may hold.
    pub(crate) expected: i64,
    /// Damage before this offset is skipped if intact batches follow. Any other damage ends the survey.
    pub(crate) floor: i64,
    /// The first offset that is not of this segment, as far as it is known.
    pub(crate) limit: Option<i64>,
}

/// The content of a segment: good batches, holes between them, and a damaged tail.
#[derive(Debug, Clone, Default)]
pub(crate) struct Survey {
    /// The offset after the last good record.
    pub(crate) end_offset: i64,
    /// Records in the intact batches.
    pub(crate) records: u64,
    /// The checksum of the last good batch.
    pub(crate) last_crc: Option<u32>,
    /// Damage with good batches behind it.
    pub(crate) holes: Vec<Span>,
    /// Damage up to the end of the file.
    pub(crate) tail: Option<Span>,
}

/// Bytes of a segment that are no batches which could stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// The offset that should have followed.
    pub(crate) from_offset: i64,
    /// The offset of the intact batch behind it; without one, the offset after the last that the bytes reveal.
    pub(crate) to_offset: i64,
    /// Whole records among the bytes.
    pub(crate) records: u64,
    pub(crate) reason: String,
    /// Whether it is the start of a batch that the file ends in the middle of.
    pub(crate) torn: bool,
}

/// Goes over a segment of `size` bytes. `each` is given every good batch up to the first damage.
pub(crate) fn survey(
    segment: &Segment,
    size: u32,
    rules: Rules,
    mut each: impl FnMut(&Batch),
) -> Result<Survey, StorageError> {
    let mut survey = Survey {
        end_offset: rules.expected,
        ..Survey::default()
    };
    let mut position = 0;
    loop {
        let is_first = survey.holes.is_empty();
        let stop = walk(segment, &mut position, size, rules.limit, &mut survey, |batch| {
            if is_first {
                each(batch);
            }
        })?;
        let Some(reason) = stop else { return Ok(survey) };
        let mut span = Span {
            start: position,
            end: size,
            from_offset: survey.end_offset,
            to_offset: survey.end_offset,
            records: 0,
            torn: reason.is_none(),
            reason: reason.unwrap_or_else(|| "the file ends in the middle of a batch".to_owned()),
        };
        let next = find_batch(segment, position + 1, size, survey.end_offset, rules.limit)?;
        match next {
            Some((next, batch)) if survey.end_offset < rules.floor => {
                (span.end, span.to_offset, span.torn) = (next, first_offset(&batch), false);
                survey.holes.push(span);
                position = next;
            }
            next => {
                span.look_behind(segment, size, next, rules.limit)?;
                survey.tail = Some(span);
                return Ok(survey);
            }
        }
    }
}

/// Passes intact batches; returns why it stopped before the end, with `None` inside if the file ends too early.
#[expect(
    clippy::option_option,
    reason = "three outcomes: the end, an unfinished batch, a bad batch and why"
)]
fn walk(
    segment: &Segment,
    position: &mut u32,
    size: u32,
    limit: Option<i64>,
    survey: &mut Survey,
    mut each: impl FnMut(&Batch),
) -> Result<Option<Option<String>>, StorageError> {
    let mut problem = None;
    let stopped = segment.scan_by(WINDOW, *position, size, |batch| {
        let after = *position + batch.size() as u32;
        problem = problem_of(segment, batch, survey.end_offset, after, size, limit);
        if problem.is_none() {
            *position = after;
            survey.end_offset = batch.last_offset() + 1;
            survey.last_crc = crc_of(batch);
            survey.records += record_count(batch);
            each(batch);
        }
        problem.is_some()
    });
    match stopped {
        Ok(None) if *position == size => Ok(None),
        Ok(_) => Ok(Some(problem)),
        // A header that makes no sense ends the walk as a bad checksum does; an error of the disk is an error.
        Err(StorageError::Damaged { reason, .. }) => Ok(Some(Some(reason))),
        Err(error) => Err(error),
    }
}

/// The reason why a batch cannot stand where it does; `None` if it can.
fn problem_of(
    segment: &Segment,
    batch: &Batch,
    expected: i64,
    after: u32,
    size: u32,
    limit: Option<i64>,
) -> Option<String> {
    if let Err(error) = batch.verify() {
        return Some(error.to_string());
    }
    let (first, last) = (first_offset(batch), batch.last_offset());
    if first < expected || last < first {
        return Some(format!(
            "a batch has offset {first} where {expected} or more is expected"
        ));
    }
    if first == expected {
        return None;
    }
    // Compaction leaves gaps. But the checksum does not cover the offset: it must fit the batch that follows.
    let follows = match after < size {
        true => next_offset(segment, after),
        false => limit,
    };
    let misfits = follows.is_some_and(|next| next <= last && next > expected);
    misfits.then(|| format!("a batch has offset {first} where {expected} is expected"))
}

pub(crate) fn next_offset(segment: &Segment, position: u32) -> Option<i64> {
    let bytes = segment.read(position, HEADER_SIZE).ok()?;
    let offset = bytes.first_chunk().copied().map(i64::from_be_bytes);
    offset.filter(|_| bytes.get(MAGIC_AT) == Some(&2))
}

/// The first whole batch from `start` on whose offset is at least `offset_min`.
pub(crate) fn find_batch(
    segment: &Segment,
    start: u32,
    size: u32,
    offset_min: i64,
    limit: Option<i64>,
) -> Result<Option<(u32, Batch)>, StorageError> {
    let mut window_start = start;
    while u64::from(window_start) + HEADER_SIZE as u64 <= u64::from(size) {
        let window = segment.read(window_start, WINDOW.min((size - window_start) as usize))?;
        let candidates = window.len().saturating_sub(HEADER_SIZE - 1);
        for place in 0..candidates {
            let Some(header) = window.get(place..place + HEADER_SIZE) else {
                break;
            };
            let position = window_start + place as u32;
            if !may_be_header(header, offset_min, limit, size - position) {
                continue;
            }
            let Ok(Some(found)) = segment.read_batch(position, size) else {
                continue;
            };
            if found.batch.verify().is_ok() && found.batch.last_offset() >= first_offset(&found.batch) {
                return Ok(Some((position, found.batch)));
            }
        }
        if candidates == 0 {
            break;
        }
        window_start += candidates as u32;
    }
    Ok(None)
}

fn may_be_header(header: &[u8], offset_min: i64, limit: Option<i64>, left: u32) -> bool {
    let offset = header.first_chunk().copied().map_or(-1, i64::from_be_bytes);
    let length = header
        .get(8..12)
        .and_then(|bytes| bytes.first_chunk().copied())
        .map_or(-1, i32::from_be_bytes);
    header.get(MAGIC_AT) == Some(&2)
        && offset >= offset_min
        && limit.is_none_or(|limit| offset < limit)
        && length >= (HEADER_SIZE - BATCH_OVERHEAD) as i32
        && i64::from(length) + BATCH_OVERHEAD as i64 <= i64::from(left)
}

impl Span {
    /// Counts the intact records behind the damage, and finds the last offset that the bytes reveal.
    fn look_behind(
        &mut self,
        segment: &Segment,
        size: u32,
        next: Option<(u32, Batch)>,
        limit: Option<i64>,
    ) -> Result<(), StorageError> {
        if !self.torn {
            self.to_offset = self.to_offset.max(self.end_in_header(segment)?);
        }
        let mut next = next;
        while let Some((position, batch)) = next {
            self.torn = false;
            self.records += record_count(&batch);
            self.to_offset = self.to_offset.max(batch.last_offset() + 1);
            let after = position + batch.size() as u32;
            next = find_batch(segment, after, size, self.to_offset, limit)?;
        }
        Ok(())
    }

    /// The end of a damaged batch by its header, if that makes sense.
    fn end_in_header(&self, segment: &Segment) -> Result<i64, StorageError> {
        const RECORDS_MAX: i64 = 10_000_000;
        let bytes: Bytes = segment.read(self.start, HEADER_SIZE)?;
        let Some(header) = bytes.first_chunk().map(BatchHeader::parse) else {
            return Ok(self.from_offset);
        };
        let counts = [i64::from(header.last_offset_delta) + 1, i64::from(header.record_count)];
        let count = counts
            .into_iter()
            .filter(|count| (1..=RECORDS_MAX).contains(count))
            .max();
        Ok(self.from_offset + count.unwrap_or(0))
    }
}

pub(crate) fn first_offset(batch: &Batch) -> i64 {
    match batch {
        Batch::V2(batch) => batch.header().base_offset,
        Batch::Legacy(message) => message.offset(),
    }
}

pub(crate) fn crc_of(batch: &Batch) -> Option<u32> {
    match batch {
        Batch::V2(batch) => Some(batch.header().crc),
        Batch::Legacy(_) => None,
    }
}

pub(crate) fn record_count(batch: &Batch) -> u64 {
    match batch {
        Batch::V2(batch) => u64::try_from(batch.header().record_count).unwrap_or(0),
        Batch::Legacy(_) => 1,
    }
}
