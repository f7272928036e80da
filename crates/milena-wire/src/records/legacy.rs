//! The formats before 2, which old segments may still hold: read, never written.
//!
//! ```text
//! 0 offset i64   8 length i32   12 crc u32 (CRC-32 of all that follows)   16 magic i8   17 attributes i8
//! format 1 only: timestamp i64      then: key length i32, key, value length i32, value
//! ```
//!
//! A compressed message is a wrapper: its value holds other messages. Its offset is that of the last one inside. Inside,
//! format 0 has absolute offsets, format 1 offsets relative to the first.

use bytes::{Buf, Bytes};

use super::{
    batch::RecordDecoder,
    error::{BatchError, BatchProblem},
    header::{BATCH_OVERHEAD, TimestampType},
    record::{Entry, RecordSet},
};
use crate::compression::Codec;

const CRC_FROM: usize = 16;
const CODEC: u8 = 0b111;
const LOG_APPEND_TIME: u8 = 1 << 3;

/// The smallest message of a format: null key, null value.
pub(super) fn size_min(magic: i8) -> usize {
    BATCH_OVERHEAD + 14 + if magic == 0 { 0 } else { 8 }
}

/// One message of format 0 or 1, possibly with others inside.
#[derive(Debug, Clone)]
pub struct LegacyMessage {
    offset: i64,
    magic: i8,
    bytes: Bytes,
}

impl LegacyMessage {
    /// `bytes` are a whole message of at least [`size_min`] bytes, starting with this offset and of this format.
    pub(super) fn from_parts(offset: i64, magic: i8, bytes: Bytes) -> Self {
        Self { offset, magic, bytes }
    }

    pub fn offset(&self) -> i64 {
        self.offset
    }

    pub fn magic(&self) -> i8 {
        self.magic
    }

    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Compares the checksum.
    pub fn verify(&self) -> Result<(), BatchError> {
        verify(&self.bytes).map_err(|problem| problem.at(self.offset))
    }

    /// Decompresses and indexes the record, or the records inside. `set` is overwritten; its memory is used again.
    pub fn decode_into(&self, decoder: &mut RecordDecoder, set: &mut RecordSet) -> Result<(), BatchError> {
        self.fill(decoder, set).map_err(|problem| problem.at(self.offset))
    }

    fn fill(&self, decoder: &mut RecordDecoder, set: &mut RecordSet) -> Result<(), BatchProblem> {
        set.entries.clear();
        let fields = Fields::read(&self.bytes, 0)?;
        set.timestamp_type = match self.magic {
            0 => TimestampType::None,
            _ if fields.attributes & LOG_APPEND_TIME != 0 => TimestampType::LogAppendTime,
            _ => TimestampType::CreateTime,
        };
        let id = fields.attributes & CODEC;
        match Codec::from_id(id).filter(|codec| *codec != Codec::Zstd) {
            None => Err(BatchProblem::UnknownCodec { id }),
            Some(Codec::None) => {
                set.base_offset = self.offset;
                set.entries.push(fields.entry(0));
                set.body = self.bytes.clone();
                Ok(())
            }
            Some(codec) => {
                let value = fields
                    .value(&self.bytes)
                    .ok_or_else(|| bad(0, "a compressed message has no value"))?;
                let inside = decoder.decompress(self.magic, codec, value)?;
                self.fill_inside(set, &fields, inside)
            }
        }
    }

    fn fill_inside(&self, set: &mut RecordSet, wrapper: &Fields, inside: Bytes) -> Result<(), BatchProblem> {
        // A first walk finds the last offset, from which format 1 counts back to the first.
        let last = Walk::over(&inside, self.magic).last().transpose()?;
        let Some((_, last)) = last else {
            return Err(bad(0, "a compressed message has none inside"));
        };
        let absolute = match self.magic {
            0 => 0,
            _ => self.offset.wrapping_sub(last.offset),
        };
        set.base_offset = self.offset;
        for (record, message) in Walk::over(&inside, self.magic).enumerate() {
            let (start, mut fields) = message?;
            if fields.attributes & CODEC != 0 {
                return Err(bad(record, "it is compressed inside a compressed message"));
            }
            verify(inside.get(start..fields.end).unwrap_or_default())?;
            if set.timestamp_type == TimestampType::LogAppendTime {
                fields.timestamp = wrapper.timestamp;
            }
            // Offsets inside never exceed the wrapper's, so the distance to it is small and negative.
            let distance = fields.offset.wrapping_add(absolute).wrapping_sub(self.offset);
            let delta = i32::try_from(distance).map_err(|_| bad(record, "its offset is far from the others"))?;
            set.entries.push(fields.entry(delta));
        }
        set.body = inside;
        Ok(())
    }
}

fn bad(record: usize, reason: &'static str) -> BatchProblem {
    BatchProblem::BadRecord { record, reason }
}

fn verify(message: &[u8]) -> Result<(), BatchProblem> {
    let (head, covered) = message.split_at_checked(CRC_FROM).unwrap_or_default();
    let stored = head.last_chunk().copied().map_or(0, u32::from_be_bytes);
    let computed = crc32fast::hash(covered);
    if stored == computed {
        Ok(())
    } else {
        Err(BatchProblem::CrcMismatch { stored, computed })
    }
}

/// The fields of one message; positions are relative to its buffer.
struct Fields {
    offset: i64,
    attributes: u8,
    timestamp: i64,
    key_start: usize,
    key_len: i32,
    value_start: usize,
    value_len: i32,
    end: usize,
}

impl Fields {
    /// Reads the message that fills `message` and starts at `start` of its buffer.
    fn read(message: &[u8], start: usize) -> Result<Self, BatchProblem> {
        let short = || bad(0, "it is shorter than its fields");
        let end = start + message.len();
        let mut rest = message;
        if rest.len() < BATCH_OVERHEAD + 6 {
            return Err(short());
        }
        let offset = rest.get_i64();
        rest.advance(8);
        let magic = rest.get_i8();
        let attributes = rest.get_u8();
        let timestamp = match magic {
            0 => -1,
            _ => rest.try_get_i64().map_err(|_| short())?,
        };
        let key_len = rest.try_get_i32().map_err(|_| short())?;
        let key_start = end - rest.len();
        rest = rest.get(key_len.max(0) as usize..).ok_or_else(short)?;
        let value_len = rest.try_get_i32().map_err(|_| short())?;
        let value_start = end - rest.len();
        if rest.len() != value_len.max(0) as usize {
            return Err(bad(0, "its length is not that of its fields"));
        }
        Ok(Self {
            offset,
            attributes,
            timestamp,
            key_start,
            key_len: key_len.max(-1),
            value_start,
            value_len: value_len.max(-1),
            end,
        })
    }

    fn value<'a>(&self, buffer: &'a [u8]) -> Option<&'a [u8]> {
        let len = usize::try_from(self.value_len).ok()?;
        buffer.get(self.value_start..self.value_start + len)
    }

    fn entry(&self, offset_delta: i32) -> Entry {
        Entry {
            timestamp: self.timestamp,
            offset_delta,
            key_start: self.key_start as u32,
            key_len: self.key_len,
            value_start: self.value_start as u32,
            value_len: self.value_len,
            end: self.end as u32,
        }
    }
}

/// The messages inside a wrapper, with the position of each.
struct Walk<'a> {
    buffer: &'a [u8],
    position: usize,
    magic: i8,
}

impl<'a> Walk<'a> {
    fn over(buffer: &'a [u8], magic: i8) -> Self {
        Self {
            buffer,
            position: 0,
            magic,
        }
    }

    fn read(&mut self) -> Result<(usize, Fields), BatchProblem> {
        let start = self.position;
        let rest = self.buffer.get(start..).unwrap_or_default();
        // In any case below, iteration must not continue here.
        self.position = self.buffer.len();
        let length = rest
            .get(8..)
            .and_then(|rest| rest.first_chunk())
            .copied()
            .map_or(-1, i32::from_be_bytes);
        let size = usize::try_from(length).map_err(|_| BatchProblem::BadLength { length })? + BATCH_OVERHEAD;
        let message = rest
            .get(..size)
            .ok_or_else(|| bad(0, "it is longer than the message around it"))?;
        if message.len() < size_min(self.magic) {
            return Err(BatchProblem::BadLength { length });
        }
        let magic = message.get(CRC_FROM).map_or(-1, |magic| magic.cast_signed());
        if magic != self.magic {
            return Err(BatchProblem::UnknownMagic { magic });
        }
        self.position = start + size;
        Ok((start, Fields::read(message, start)?))
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<(usize, Fields), BatchProblem>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.position < self.buffer.len()).then(|| self.read())
    }
}
