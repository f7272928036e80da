//! Cutting a buffer into batches, by their headers alone.

use bytes::Bytes;

use super::{
    batch::{RecordBatch, RecordDecoder},
    error::{BatchError, BatchProblem},
    header::{BATCH_OVERHEAD, BatchHeader, HEADER_SIZE, MAGIC},
    legacy::{self, LegacyMessage},
    record::RecordSet,
};

/// The batches in a buffer, in order. A partial batch at the end is normal, since a broker cuts its responses at a
/// size: iteration stops before it, and [`Batches::leftover`] returns its bytes.
#[derive(Debug, Clone)]
pub struct Batches {
    rest: Bytes,
}

impl Batches {
    pub fn new(records: Bytes) -> Self {
        Self { rest: records }
    }

    /// Bytes not cut yet; after the last batch, those of a partial one.
    pub fn leftover(&self) -> usize {
        self.rest.len()
    }

    fn cut(&mut self) -> Result<Option<Batch>, BatchError> {
        let Some(start) = BatchStart::parse(&self.rest) else {
            return Ok(None);
        };
        let size = start.size()?;
        if size > self.rest.len() {
            return Ok(None);
        }
        let bytes = self.rest.slice(..size);
        let batch = match bytes.first_chunk::<HEADER_SIZE>() {
            Some(header) if start.magic == MAGIC => {
                Batch::V2(RecordBatch::from_parts(BatchHeader::parse(header), bytes))
            }
            _ => Batch::Legacy(LegacyMessage::from_parts(start.offset, start.magic, bytes)),
        };
        self.rest = self.rest.slice(size..);
        Ok(Some(batch))
    }
}

impl Iterator for Batches {
    type Item = Result<Batch, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let cut = self.cut();
        if cut.is_err() {
            // The start of the next batch is unknown.
            self.rest = Bytes::new();
        }
        cut.transpose()
    }
}

/// The bytes that all formats have in common: offset, length, four bytes that differ, magic.
struct BatchStart {
    offset: i64,
    length: i32,
    magic: i8,
}

impl BatchStart {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (offset, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (_, rest) = rest.split_first_chunk::<4>()?;
        Some(Self {
            offset: i64::from_be_bytes(*offset),
            length: i32::from_be_bytes(*length),
            magic: rest.first()?.cast_signed(),
        })
    }

    fn size(&self) -> Result<usize, BatchError> {
        let size_min = match self.magic {
            MAGIC => HEADER_SIZE,
            0 | 1 => legacy::size_min(self.magic),
            magic => return Err(BatchProblem::UnknownMagic { magic }.at(self.offset)),
        };
        match usize::try_from(self.length) {
            Ok(length) if length + BATCH_OVERHEAD >= size_min => Ok(length + BATCH_OVERHEAD),
            _ => Err(BatchProblem::BadLength { length: self.length }.at(self.offset)),
        }
    }
}

/// A batch of any format; a message of the old formats, with or without others inside, counts as one.
#[derive(Debug, Clone)]
pub enum Batch {
    V2(RecordBatch),
    Legacy(LegacyMessage),
}

impl Batch {
    /// Offset of the last record: the next one to read is one more.
    pub fn last_offset(&self) -> i64 {
        match self {
            Self::V2(batch) => batch.header().last_offset(),
            Self::Legacy(message) => message.offset(),
        }
    }

    /// The batch as it is on the wire and on disk.
    pub fn bytes(&self) -> &Bytes {
        match self {
            Self::V2(batch) => batch.bytes(),
            Self::Legacy(message) => message.bytes(),
        }
    }

    /// Bytes on the wire.
    pub fn size(&self) -> usize {
        self.bytes().len()
    }

    /// Compares the checksum.
    pub fn verify(&self) -> Result<(), BatchError> {
        match self {
            Self::V2(batch) => batch.verify(),
            Self::Legacy(message) => message.verify(),
        }
    }

    /// Decompresses and indexes the records. `set` is overwritten; its memory is used again.
    pub fn decode_into(&self, decoder: &mut RecordDecoder, set: &mut RecordSet) -> Result<(), BatchError> {
        match self {
            Self::V2(batch) => batch.decode_into(decoder, set),
            Self::Legacy(message) => message.decode_into(decoder, set),
        }
    }
}
