//! Writing a batch: each record is encoded the moment it arrives.

use bytes::Bytes;

use super::{
    closed::ClosedBatch,
    header::{Attributes, BATCH_OVERHEAD, BatchHeader, HEADER_SIZE, NO_PRODUCER, NO_SEQUENCE},
    record::Header,
};
use crate::{
    compression::{CompressError, Compressor},
    varint,
};

/// The length of a batch is a signed number of 32 bits.
const SIZE_MAX: usize = i32::MAX as usize;

/// Builds one batch of format 2. Its present size is [`BatchBuilder::size`] bytes, header included.
#[derive(Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    /// Space for the header, then the records encoded so far.
    buffer: Vec<u8>,
    count: i32,
    /// The base of timestamp deltas: the delete horizon, or else the timestamp of the first record.
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    last_offset_delta: i32,
}

/// The header fields of a batch that do not follow from its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    pub base_offset: i64,
    pub partition_leader_epoch: i32,
    /// The codec bits are set when the batch is finished. With the bit for log append time, the largest timestamp of
    /// the records becomes the timestamp of all.
    pub attributes: Attributes,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    /// When the tombstones and markers of this compacted batch may go.
    pub delete_horizon_ms: Option<i64>,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            base_offset: 0,
            partition_leader_epoch: -1,
            attributes: Attributes::default(),
            producer_id: NO_PRODUCER,
            producer_epoch: -1,
            base_sequence: NO_SEQUENCE,
            delete_horizon_ms: None,
        }
    }
}

/// A record to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewRecord<'a> {
    pub timestamp: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header<'a>],
}

/// Why a record cannot join a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    #[error("a batch with this record would take {size} bytes, more than it can have")]
    TooLarge { size: usize },
    #[error("offset delta {offset_delta} does not follow {last}")]
    OutOfOrder { offset_delta: i32, last: i32 },
}

impl BatchBuilder {
    pub fn new(options: BatchOptions) -> Self {
        Self::with_buffer(options, Vec::new())
    }

    /// Builds in a reused buffer; its content is discarded.
    pub fn with_buffer(options: BatchOptions, mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.resize(HEADER_SIZE, 0);
        Self {
            options,
            buffer,
            count: 0,
            base_timestamp: options.delete_horizon_ms,
            max_timestamp: -1,
            last_offset_delta: -1,
        }
    }

    /// Adds a record at the next offset.
    pub fn append(&mut self, record: &NewRecord<'_>) -> Result<(), AppendError> {
        self.append_at(self.last_offset_delta.wrapping_add(1), record)
    }

    /// Appends a record at the next offset if the batch then takes at most `size_max` bytes, uncompressed.
    /// Returns the size of the record.
    #[inline]
    pub fn append_within(&mut self, size_max: usize, record: &NewRecord<'_>) -> Result<usize, AppendError> {
        self.write(self.last_offset_delta.wrapping_add(1), size_max, record)
    }

    /// Adds a record at a given distance from the base offset: compaction leaves gaps.
    pub fn append_at(&mut self, offset_delta: i32, record: &NewRecord<'_>) -> Result<(), AppendError> {
        self.write(offset_delta, SIZE_MAX, record)?;
        Ok(())
    }

    #[inline]
    fn write(&mut self, offset_delta: i32, size_max: usize, record: &NewRecord<'_>) -> Result<usize, AppendError> {
        if offset_delta <= self.last_offset_delta {
            let last = self.last_offset_delta;
            return Err(AppendError::OutOfOrder { offset_delta, last });
        }
        let base_timestamp = self.base_timestamp.unwrap_or(record.timestamp);
        let shape = Shape::of(record, base_timestamp, offset_delta);
        let (before, added) = (self.buffer.len(), shape.total());
        let size = before + added;
        if size > size_max.min(SIZE_MAX) {
            return Err(AppendError::TooLarge { size });
        }
        self.buffer.reserve(added);
        shape.write(record, &mut self.buffer);
        self.base_timestamp = Some(base_timestamp);
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
        self.last_offset_delta = offset_delta;
        self.count += 1;
        Ok(added)
    }

    /// Makes the batch reach at least to this distance from its base offset, although there is no record: compaction
    /// removes the last record of a batch and keeps its offset.
    pub fn reach(&mut self, offset_delta: i32) {
        self.last_offset_delta = self.last_offset_delta.max(offset_delta);
    }

    /// Bytes of the batch as it stands, uncompressed.
    pub fn size(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes of the batch, uncompressed, if `record` were appended.
    pub fn size_with(&self, record: &NewRecord<'_>) -> usize {
        let base_timestamp = self.base_timestamp.unwrap_or(record.timestamp);
        self.size() + Shape::of(record, base_timestamp, self.last_offset_delta.wrapping_add(1)).total()
    }

    pub fn record_count(&self) -> i32 {
        self.count
    }

    /// Continues in another buffer, which gets a copy of the records so far. Returns the old one.
    pub fn replace_buffer(&mut self, mut buffer: Vec<u8>) -> Vec<u8> {
        buffer.clear();
        buffer.extend_from_slice(&self.buffer);
        std::mem::replace(&mut self.buffer, buffer)
    }

    /// The batch, uncompressed and in place: nothing is copied.
    pub fn finish(self) -> Bytes {
        let header = self.header(self.options.attributes, self.buffer.len());
        Bytes::from(seal(self.buffer, header))
    }

    /// The batch, uncompressed and in place, for a producer that is not known yet.
    pub fn close(self) -> ClosedBatch {
        let header = self.header(self.options.attributes, self.buffer.len());
        ClosedBatch::new(header, self.buffer)
    }

    /// The same, compressed. The builder's buffer comes back for the next one.
    pub fn close_compressed(self, compressor: &mut Compressor) -> Result<(ClosedBatch, Vec<u8>), CompressError> {
        let (header, compressed) = self.compress(compressor)?;
        Ok((ClosedBatch::new(header, compressed), self.buffer))
    }

    /// The batch, compressed. The builder's buffer comes back for the next one.
    pub fn finish_compressed(self, compressor: &mut Compressor) -> Result<(Bytes, Vec<u8>), CompressError> {
        let (header, compressed) = self.compress(compressor)?;
        Ok((Bytes::from(seal(compressed, header)), self.buffer))
    }

    /// The compressed records, behind space for the header.
    fn compress(&self, compressor: &mut Compressor) -> Result<(BatchHeader, Vec<u8>), CompressError> {
        let mut compressed = vec![0; HEADER_SIZE];
        let (_, records) = self.buffer.split_at_checked(HEADER_SIZE).unwrap_or_default();
        compressor.compress(records, &mut compressed)?;
        let attributes = self.options.attributes.with_codec(compressor.compression().codec());
        Ok((self.header(attributes, compressed.len()), compressed))
    }

    fn header(&self, attributes: Attributes, size: usize) -> BatchHeader {
        BatchHeader {
            base_offset: self.options.base_offset,
            length: i32::try_from(size - BATCH_OVERHEAD).unwrap_or(i32::MAX),
            partition_leader_epoch: self.options.partition_leader_epoch,
            crc: 0,
            attributes: attributes.with_delete_horizon(self.options.delete_horizon_ms.is_some()),
            last_offset_delta: self.last_offset_delta,
            base_timestamp: self.base_timestamp.unwrap_or(-1),
            max_timestamp: self.max_timestamp,
            producer_id: self.options.producer_id,
            producer_epoch: self.options.producer_epoch,
            base_sequence: self.options.base_sequence,
            record_count: self.count,
        }
    }
}

/// Puts the header, with its CRC, in front of the records.
pub(super) fn seal(mut batch: Vec<u8>, mut header: BatchHeader) -> Vec<u8> {
    if let Some((place, records)) = batch.split_first_chunk_mut::<HEADER_SIZE>() {
        header.crc = header.compute_crc(records);
        *place = header.to_bytes();
    }
    batch
}

/// The encoded form of a record, before it is written: its numbers and its length.
struct Shape {
    body_len: usize,
    timestamp_delta: u64,
    offset_delta: u64,
}

impl Shape {
    #[inline]
    fn of(record: &NewRecord<'_>, base_timestamp: i64, offset_delta: i32) -> Self {
        let timestamp_delta = varint::zigzag(record.timestamp.wrapping_sub(base_timestamp));
        let offset_delta = varint::zigzag(i64::from(offset_delta));
        let headers: usize = record
            .headers
            .iter()
            .map(|header| sized_len(Some(header.key)) + sized_len(header.value))
            .sum();
        let body_len = 1
            + varint::len_u64(timestamp_delta)
            + varint::len_u64(offset_delta)
            + sized_len(record.key)
            + sized_len(record.value)
            + varint::len_u64(varint::zigzag(record.headers.len() as i64))
            + headers;
        Self {
            body_len,
            timestamp_delta,
            offset_delta,
        }
    }

    fn total(&self) -> usize {
        varint::len_u64(varint::zigzag(self.body_len as i64)) + self.body_len
    }

    #[inline]
    fn write(&self, record: &NewRecord<'_>, out: &mut Vec<u8>) {
        varint::put_u64(out, varint::zigzag(self.body_len as i64));
        out.push(0);
        varint::put_u64(out, self.timestamp_delta);
        varint::put_u64(out, self.offset_delta);
        put_sized(out, record.key);
        put_sized(out, record.value);
        varint::put_u64(out, varint::zigzag(record.headers.len() as i64));
        for header in record.headers {
            put_sized(out, Some(header.key));
            put_sized(out, header.value);
        }
    }
}

/// Size of a length with its bytes; -1 stands for null.
#[inline]
fn sized_len(bytes: Option<&[u8]>) -> usize {
    match bytes {
        Some(bytes) => varint::len_u64(varint::zigzag(bytes.len() as i64)) + bytes.len(),
        None => 1,
    }
}

#[inline]
fn put_sized(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            varint::put_u64(out, varint::zigzag(bytes.len() as i64));
            out.extend_from_slice(bytes);
        }
        None => varint::put_u64(out, varint::zigzag(-1)),
    }
}
