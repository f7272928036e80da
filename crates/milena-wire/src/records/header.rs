//! The header of a record batch, format 2.
//!
//! ```text
//!  0 base offset i64        17 crc u32 (CRC-32C of all that follows)   43 producer id i64
//!  8 length i32             21 attributes i16                         51 producer epoch i16
//! 12 leader epoch i32       23 last offset delta i32                  53 base sequence i32
//! 16 magic i8 = 2           27 base timestamp i64                     57 record count i32
//!                           35 max timestamp i64                      61 records
//! ```
//!
//! Base offset and leader epoch lie before the CRC, so a broker can set them without touching the rest.

use bytes::{Buf, BufMut};

use crate::compression::Codec;

/// Bytes before the records.
pub const HEADER_SIZE: usize = 61;
/// Base offset and length, which the length does not count.
pub const BATCH_OVERHEAD: usize = 12;
/// Producer id of a batch that no idempotent producer wrote.
pub const NO_PRODUCER: i64 = -1;
/// Base sequence of a batch that no idempotent producer wrote.
pub const NO_SEQUENCE: i32 = -1;

pub(super) const MAGIC: i8 = 2;
/// Position of the first byte that the CRC covers.
pub(super) const CRC_FROM: usize = 21;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    pub base_offset: i64,
    /// Bytes after this field.
    pub length: i32,
    pub partition_leader_epoch: i32,
    pub crc: u32,
    pub attributes: Attributes,
    /// Offset of the last record when the batch was written; compaction may have removed that record since.
    pub last_offset_delta: i32,
    /// The time that record timestamps are relative to, or the delete horizon if [`Attributes::has_delete_horizon`].
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl BatchHeader {
    /// Parses a header. The magic byte is not checked: the caller knows the format.
    pub fn parse(bytes: &[u8; HEADER_SIZE]) -> Self {
        let mut rest = &bytes[..];
        let base_offset = rest.get_i64();
        let length = rest.get_i32();
        let partition_leader_epoch = rest.get_i32();
        let _magic = rest.get_i8();
        Self {
            base_offset,
            length,
            partition_leader_epoch,
            crc: rest.get_u32(),
            attributes: Attributes(rest.get_i16()),
            last_offset_delta: rest.get_i32(),
            base_timestamp: rest.get_i64(),
            max_timestamp: rest.get_i64(),
            producer_id: rest.get_i64(),
            producer_epoch: rest.get_i16(),
            base_sequence: rest.get_i32(),
            record_count: rest.get_i32(),
        }
    }

    pub fn to_bytes(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        let mut rest = &mut bytes[..];
        rest.put_i64(self.base_offset);
        rest.put_i32(self.length);
        rest.put_i32(self.partition_leader_epoch);
        rest.put_i8(MAGIC);
        rest.put_u32(self.crc);
        rest.put_i16(self.attributes.0);
        rest.put_i32(self.last_offset_delta);
        rest.put_i64(self.base_timestamp);
        rest.put_i64(self.max_timestamp);
        rest.put_i64(self.producer_id);
        rest.put_i16(self.producer_epoch);
        rest.put_i32(self.base_sequence);
        rest.put_i32(self.record_count);
        bytes
    }

    /// Offset of the last record, present or compacted away: the next one to read is one more.
    pub fn last_offset(&self) -> i64 {
        self.base_offset.wrapping_add(i64::from(self.last_offset_delta))
    }

    /// Sequence of the last record; sequences wrap from `i32::MAX` to 0.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        (self.base_sequence.wrapping_add(self.last_offset_delta)) & i32::MAX
    }

    /// When the tombstones and markers of a compacted batch may go.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        self.attributes.has_delete_horizon().then_some(self.base_timestamp)
    }

    /// The CRC this header should carry in front of `records`.
    pub fn compute_crc(&self, records: &[u8]) -> u32 {
        let header = self.to_bytes();
        let (_, covered) = header.split_at(CRC_FROM);
        crc32c::crc32c_append(crc32c::crc32c(covered), records)
    }
}

/// The attribute bits of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attributes(pub i16);

impl Attributes {
    const CODEC: i16 = 0b111;
    const LOG_APPEND_TIME: i16 = 1 << 3;
    const TRANSACTIONAL: i16 = 1 << 4;
    const CONTROL: i16 = 1 << 5;
    const DELETE_HORIZON: i16 = 1 << 6;

    /// The codec, or the id that is none.
    pub fn codec(self) -> Result<Codec, u8> {
        let id = (self.0 & Self::CODEC) as u8;
        Codec::from_id(id).ok_or(id)
    }

    pub fn timestamp_type(self) -> TimestampType {
        if self.has(Self::LOG_APPEND_TIME) {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    pub fn is_transactional(self) -> bool {
        self.has(Self::TRANSACTIONAL)
    }

    pub fn is_control(self) -> bool {
        self.has(Self::CONTROL)
    }

    pub fn has_delete_horizon(self) -> bool {
        self.has(Self::DELETE_HORIZON)
    }

    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Self(self.0 & !Self::CODEC | i16::from(codec.id()))
    }

    #[must_use]
    pub fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        self.with(Self::LOG_APPEND_TIME, timestamp_type == TimestampType::LogAppendTime)
    }

    #[must_use]
    pub fn with_transactional(self, on: bool) -> Self {
        self.with(Self::TRANSACTIONAL, on)
    }

    #[must_use]
    pub fn with_control(self, on: bool) -> Self {
        self.with(Self::CONTROL, on)
    }

    #[must_use]
    pub fn with_delete_horizon(self, on: bool) -> Self {
        self.with(Self::DELETE_HORIZON, on)
    }

    fn has(self, bit: i16) -> bool {
        self.0 & bit != 0
    }

    fn with(self, bit: i16, on: bool) -> Self {
        if on { Self(self.0 | bit) } else { Self(self.0 & !bit) }
    }
}

/// The clock of a record's timestamp: the producer's or the broker's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The oldest format had no timestamps.
    None,
    #[default]
    CreateTime,
    LogAppendTime,
}
