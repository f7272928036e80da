//! Records: borrowed from a decoded batch, or owned at the price of one reference count.

use bytes::Bytes;

use super::header::TimestampType;
use crate::varint;

/// The records of one decoded batch: its bytes, and the position of each record.
///
/// Decode batch after batch into the same set: its index is then allocated only for a batch larger than any before.
#[derive(Debug, Clone, Default)]
pub struct RecordSet {
    pub(super) body: Bytes,
    pub(super) base_offset: i64,
    pub(super) timestamp_type: TimestampType,
    pub(super) entries: Vec<Entry>,
}

/// Position of one record in the body of its batch: 32 bytes, so that two share a cache line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) timestamp: i64,
    pub(super) offset_delta: i32,
    pub(super) key_start: u32,
    /// -1 for null.
    pub(super) key_len: i32,
    pub(super) value_start: u32,
    /// -1 for null.
    pub(super) value_len: i32,
    /// End of the record; the headers lie between the value and this.
    pub(super) end: u32,
}

const _: () = assert!(size_of::<Entry>() == 32);

impl RecordSet {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of all records, as they are without compression.
    pub fn size(&self) -> usize {
        self.body.len()
    }

    pub fn get(&self, record: usize) -> Option<Record<'_>> {
        self.entries.get(record).map(|entry| self.record(entry))
    }

    /// A record that is known to be there. Without indexing there is no panic either: of a record that is not there,
    /// everything is empty.
    pub fn known(&self, record: usize) -> Record<'_> {
        static NOTHING: Entry = Entry {
            timestamp: -1,
            offset_delta: -1,
            key_start: 0,
            key_len: -1,
            value_start: 0,
            value_len: -1,
            end: 0,
        };
        self.record(self.entries.get(record).unwrap_or(&NOTHING))
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> + DoubleEndedIterator {
        self.entries.iter().map(|entry| self.record(entry))
    }

    /// The records from `offset` on. A fetch returns whole batches, so the first may begin below the requested
    /// offset.
    pub fn iter_from(&self, offset: i64) -> impl Iterator<Item = Record<'_>> {
        self.iter().filter(move |record| record.offset() >= offset)
    }

    fn record<'a>(&'a self, entry: &'a Entry) -> Record<'a> {
        Record { set: self, entry }
    }
}

/// The one record alone.
impl From<OwnedRecord> for RecordSet {
    fn from(record: OwnedRecord) -> Self {
        Self {
            body: record.body,
            base_offset: record.offset,
            timestamp_type: record.timestamp_type,
            entries: vec![Entry {
                offset_delta: 0,
                ..record.entry
            }],
        }
    }
}

/// A record that borrows from its [`RecordSet`].
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    set: &'a RecordSet,
    entry: &'a Entry,
}

impl<'a> Record<'a> {
    pub fn offset(&self) -> i64 {
        self.set.base_offset.wrapping_add(i64::from(self.entry.offset_delta))
    }

    /// Milliseconds since 1970, or -1 if it has none.
    pub fn timestamp(&self) -> i64 {
        self.entry.timestamp
    }

    pub fn timestamp_type(&self) -> TimestampType {
        self.set.timestamp_type
    }

    pub fn key(&self) -> Option<&'a [u8]> {
        self.entry.key(&self.set.body)
    }

    pub fn value(&self) -> Option<&'a [u8]> {
        self.entry.value(&self.set.body)
    }

    pub fn headers(&self) -> Headers<'a> {
        Headers::new(self.entry.headers(&self.set.body))
    }

    /// The same record without the borrow. It keeps the whole batch in memory; [`OwnedRecord::detach`] ends that.
    pub fn to_owned(&self) -> OwnedRecord {
        OwnedRecord {
            body: self.set.body.clone(),
            offset: self.offset(),
            timestamp_type: self.set.timestamp_type,
            entry: *self.entry,
        }
    }
}

/// A record that shares the buffer of its batch.
#[derive(Debug, Clone)]
pub struct OwnedRecord {
    body: Bytes,
    offset: i64,
    timestamp_type: TimestampType,
    entry: Entry,
}

impl OwnedRecord {
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Milliseconds since 1970, or -1 if it has none.
    pub fn timestamp(&self) -> i64 {
        self.entry.timestamp
    }

    pub fn timestamp_type(&self) -> TimestampType {
        self.timestamp_type
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.entry.key(&self.body)
    }

    pub fn value(&self) -> Option<&[u8]> {
        self.entry.value(&self.body)
    }

    pub fn headers(&self) -> Headers<'_> {
        Headers::new(self.entry.headers(&self.body))
    }

    /// Copies the record out of its batch, so that a kept record does not keep a megabyte with it.
    #[must_use]
    pub fn detach(&self) -> Self {
        let start = self.entry.key_start;
        let bytes = self
            .body
            .get(start as usize..self.entry.end as usize)
            .unwrap_or_default();
        Self {
            body: Bytes::copy_from_slice(bytes),
            entry: Entry {
                key_start: 0,
                value_start: self.entry.value_start - start,
                end: self.entry.end - start,
                ..self.entry
            },
            ..*self
        }
    }

    /// The same record with another timestamp.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: i64) -> Self {
        self.entry.timestamp = timestamp;
        self
    }
}

impl Entry {
    fn key<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        slice(body, self.key_start, self.key_len)
    }

    fn value<'a>(&self, body: &'a [u8]) -> Option<&'a [u8]> {
        slice(body, self.value_start, self.value_len)
    }

    fn headers<'a>(&self, body: &'a [u8]) -> &'a [u8] {
        let start = self.value_start as usize + self.value_len.max(0) as usize;
        body.get(start..self.end as usize).unwrap_or_default()
    }
}

fn slice(body: &[u8], start: u32, len: i32) -> Option<&[u8]> {
    let len = usize::try_from(len).ok()?;
    let start = start as usize;
    // Indexing has checked the bounds, so the empty slice is never used.
    Some(body.get(start..start + len).unwrap_or_default())
}

/// One header of a record. Keys may repeat and need not be UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

impl<'a> Header<'a> {
    pub fn new(key: &'a str, value: &'a [u8]) -> Self {
        Self {
            key: key.as_bytes(),
            value: Some(value),
        }
    }
}

/// The headers of a record in order, decoded lazily. None by default.
#[derive(Debug, Clone, Default)]
pub struct Headers<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    /// `bytes` are a count and then the headers, as indexing has checked; or nothing, in the formats without headers.
    fn new(bytes: &'a [u8]) -> Self {
        let (count, rest) = read_len(bytes).unwrap_or((0, &[]));
        Self {
            left: usize::try_from(count).unwrap_or(0),
            rest,
        }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        if self.left == 0 {
            return None;
        }
        let (header, rest) = read_header(self.rest)?;
        self.left -= 1;
        self.rest = rest;
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

/// Reads one header; `None` if it is malformed.
#[inline]
pub(super) fn read_header(bytes: &[u8]) -> Option<(Header<'_>, &[u8])> {
    let (key_len, rest) = read_len(bytes)?;
    let (key, rest) = rest.split_at_checked(usize::try_from(key_len).ok()?)?;
    let (value_len, rest) = read_len(rest)?;
    let (value, rest) = match usize::try_from(value_len) {
        Ok(value_len) => {
            let (value, rest) = rest.split_at_checked(value_len)?;
            (Some(value), rest)
        }
        Err(_) => (None, rest),
    };
    Some((Header { key, value }, rest))
}

/// A zigzag varint of 32 bits.
#[inline]
pub(super) fn read_len(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (value, rest) = varint::read_u64(bytes).ok()?;
    Some((i32::try_from(varint::unzigzag(value)).ok()?, rest))
}
