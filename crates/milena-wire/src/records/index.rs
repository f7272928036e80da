//! One pass over the records of a batch: every length checked, every position noted, nothing copied.

use bytes::Bytes;

use super::{
    error::BatchProblem,
    header::{BatchHeader, TimestampType},
    record::{Entry, RecordSet, read_header, read_len},
};
use crate::varint;

/// The smallest record: length, attributes, two deltas, two lengths, a header count.
const RECORD_SIZE_MIN: usize = 7;

/// Fills `set` with the records in `body`, which follows `header` and is decompressed.
pub(super) fn fill(set: &mut RecordSet, header: &BatchHeader, body: Bytes) -> Result<(), BatchProblem> {
    set.base_offset = header.base_offset;
    set.timestamp_type = header.attributes.timestamp_type();
    let filled = fill_entries(&mut set.entries, header, &body);
    if filled.is_err() {
        set.entries.clear();
    }
    set.body = body;
    filled
}

fn fill_entries(entries: &mut Vec<Entry>, header: &BatchHeader, body: &[u8]) -> Result<(), BatchProblem> {
    let bytes = body.len();
    let count = match usize::try_from(header.record_count) {
        Ok(count) if count <= bytes / RECORD_SIZE_MIN => count,
        _ => {
            let count = header.record_count;
            return Err(BatchProblem::BadCount { count, bytes });
        }
    };
    // Entries of the previous batch are overwritten in place, which is cheaper than pushing.
    entries.resize(count, Entry::default());
    let times = Timestamps::of(header);
    let (mut done, mut start) = fill_short(entries, body, 0, times);
    while let Some(slot) = entries.get_mut(done) {
        let bad = |reason| BatchProblem::BadRecord { record: done, reason };
        *slot = read_record(body, start, times).map_err(bad)?;
        start = slot.end as usize;
        let rest = entries.get_mut(done + 1..).unwrap_or_default();
        let (short, next) = fill_short(rest, body, start, times);
        done += 1 + short;
        start = next;
    }
    match bytes - start {
        0 => Ok(()),
        bytes => Err(BatchProblem::TrailingBytes { bytes }),
    }
}

/// Computes a timestamp from the delta of a record.
#[derive(Clone, Copy)]
struct Timestamps {
    base: i64,
    /// All ones; or zero, if the broker's clock counts, which is the same for the whole batch.
    delta_mask: i64,
}

impl Timestamps {
    fn of(header: &BatchHeader) -> Self {
        match header.attributes.timestamp_type() {
            TimestampType::LogAppendTime => Self {
                base: header.max_timestamp,
                delta_mask: 0,
            },
            _ => Self {
                base: header.base_timestamp,
                delta_mask: -1,
            },
        }
    }

    #[inline(always)]
    fn resolve(self, delta: i64) -> i64 {
        self.base.wrapping_add(delta & self.delta_mask)
    }
}

/// Fills `entries` from `start` on, until they are full or a record is not short; returns the number of records
/// read and the position after the last.
fn fill_short(entries: &mut [Entry], body: &[u8], mut start: usize, times: Timestamps) -> (usize, usize) {
    let mut done = 0;
    for entry in entries {
        let Some(end) = read_short(entry, body, start, times) else {
            break;
        };
        start = end;
        done += 1;
    }
    (done, start)
}

/// As [`read_record`], for records with short numbers, which are nearly all: three loads of eight bytes in place of
/// a check for every byte. `None` leaves the record, or its error, to `read_record`.
///
/// Each field is stored as soon as it is known, which keeps the loop within the registers there are.
#[inline(always)]
fn read_short(entry: &mut Entry, body: &[u8], start: usize, times: Timestamps) -> Option<usize> {
    let mut window = Window::load(body, start)?;
    let len = window.length()?;
    let end = window.position + len as usize;
    entry.end = end as u32;
    window.advance(1);
    entry.timestamp = times.resolve(varint::unzigzag(u64::from(window.varint()?)));

    let mut window = Window::load(body, window.position)?;
    entry.offset_delta = window.length()? as i32;
    let key_bytes = window.nullable_length(&mut entry.key_len)?;
    entry.key_start = window.position as u32;

    let mut window = Window::load(body, window.position + key_bytes)?;
    let value_bytes = window.nullable_length(&mut entry.value_len)?;
    entry.value_start = window.position as u32;

    // Most records end with a single zero byte: no headers.
    let headers_start = window.position + value_bytes;
    if headers_start + 1 != end || *body.get(headers_start)? != 0 {
        check_headers(body.get(headers_start..end)?).ok()?;
    }
    Some(end)
}

/// Eight bytes in a register, read from the low end.
struct Window {
    word: u64,
    /// Position in the body of the next byte of the register.
    position: usize,
}

impl Window {
    #[inline(always)]
    fn load(body: &[u8], position: usize) -> Option<Self> {
        let bytes = body.get(position..position.wrapping_add(8))?;
        let word = u64::from_le_bytes(*bytes.first_chunk()?);
        Some(Self { word, position })
    }

    /// A varint of at most three bytes, still in zigzag form.
    #[inline(always)]
    fn varint(&mut self) -> Option<u32> {
        let word = self.word as u32;
        if word & 0x80 == 0 {
            self.advance(1);
            Some(word & 0x7f)
        } else if word & 0x8000 == 0 {
            self.advance(2);
            Some(word & 0x7f | (word >> 1) & 0x3f80)
        } else if word & 0x80_0000 == 0 {
            self.advance(3);
            Some(word & 0x7f | (word >> 1) & 0x3f80 | (word >> 2) & 0x1f_c000)
        } else {
            None
        }
    }

    /// A number that is not negative.
    #[inline(always)]
    fn length(&mut self) -> Option<u32> {
        let zigzag = self.varint()?;
        (zigzag & 1 == 0).then_some(zigzag >> 1)
    }

    /// Stores a length, -1 for null; returns the number of bytes that follow.
    #[inline(always)]
    fn nullable_length(&mut self, length: &mut i32) -> Option<usize> {
        let zigzag = self.varint()?;
        if zigzag & 1 == 0 {
            *length = (zigzag >> 1) as i32;
            Some((zigzag >> 1) as usize)
        } else {
            *length = -1;
            (zigzag == 1).then_some(0)
        }
    }

    #[inline(always)]
    fn advance(&mut self, bytes: usize) {
        self.word >>= 8 * bytes;
        self.position += bytes;
    }
}

/// Reads the record at `start` of `body`, or returns why it is malformed.
#[inline(never)]
fn read_record(body: &[u8], start: usize, times: Timestamps) -> Result<Entry, &'static str> {
    let rest = body.get(start..).unwrap_or_default();
    let (len, rest) = read_len(rest).ok_or("its length is no varint")?;
    let len = usize::try_from(len).map_err(|_| "its length is negative")?;
    let (rest, after) = rest.split_at_checked(len).ok_or("it is longer than the batch")?;
    let end = body.len() - after.len();
    // A batch is at most 4 GiB, so every position fits.
    let position = |rest: &[u8]| (end - rest.len()) as u32;

    let (_attributes, rest) = rest.split_first().ok_or("it has no attributes")?;
    let (timestamp_delta, rest) = varint::read_u64(rest).map_err(|_| "its timestamp is no varint")?;
    let (offset_delta, rest) = read_len(rest).ok_or("its offset is no varint")?;
    let (key_len, rest) = read_len(rest).ok_or("its key has no length")?;
    let key_start = position(rest);
    let rest = skip(rest, key_len).ok_or("its key is longer than the record")?;
    let (value_len, rest) = read_len(rest).ok_or("its value has no length")?;
    let value_start = position(rest);
    let rest = skip(rest, value_len).ok_or("its value is longer than the record")?;
    check_headers(rest)?;
    Ok(Entry {
        timestamp: times.resolve(varint::unzigzag(timestamp_delta)),
        offset_delta,
        key_start,
        key_len: key_len.max(-1),
        value_start,
        value_len: value_len.max(-1),
        end: end as u32,
    })
}

/// The bytes after the first `len`; a negative length is null and takes none.
fn skip(bytes: &[u8], len: i32) -> Option<&[u8]> {
    bytes.get(len.max(0) as usize..)
}

/// Walks the headers once, so that reading them later cannot fail.
fn check_headers(bytes: &[u8]) -> Result<(), &'static str> {
    let (count, mut rest) = read_len(bytes).ok_or("its headers have no count")?;
    if count < 0 {
        return Err("its count of headers is negative");
    }
    for _ in 0..count {
        (_, rest) = read_header(rest).ok_or("a header is longer than the record")?;
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err("it is longer than its fields")
    }
}
