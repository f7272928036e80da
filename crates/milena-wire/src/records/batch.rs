//! A received batch of format 2: verified, decompressed and indexed; or patched in place.

use bytes::Bytes;

use super::{
    error::{BatchError, BatchProblem},
    header::{BatchHeader, HEADER_SIZE},
    index,
    record::RecordSet,
};
use crate::{
    compression::{Codec, Decompressor},
    pool::{BufferPool, PooledBuffer},
};

/// A whole batch of format 2 in a shared buffer. Nothing behind the header has been looked at yet.
#[derive(Debug, Clone)]
pub struct RecordBatch {
    header: BatchHeader,
    bytes: Bytes,
}

impl RecordBatch {
    /// `bytes` are a whole batch that starts with `header`.
    pub(super) fn from_parts(header: BatchHeader, bytes: Bytes) -> Self {
        Self { header, bytes }
    }

    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The batch as it is on the wire and on disk.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Compares the checksum.
    pub fn verify(&self) -> Result<(), BatchError> {
        let stored = self.header.crc;
        let computed = self.header.compute_crc(self.records());
        if stored == computed {
            Ok(())
        } else {
            Err(BatchProblem::CrcMismatch { stored, computed }.at(self.header.base_offset))
        }
    }

    /// Decompresses and indexes the records. `set` is overwritten; its memory is used again.
    pub fn decode_into(&self, decoder: &mut RecordDecoder, set: &mut RecordSet) -> Result<(), BatchError> {
        let failed = |problem: BatchProblem| problem.at(self.header.base_offset);
        let codec = self
            .header
            .attributes
            .codec()
            .map_err(|id| failed(BatchProblem::UnknownCodec { id }))?;
        let body = match codec {
            Codec::None => self.bytes.slice(HEADER_SIZE..),
            codec => decoder.decompress(2, codec, self.records()).map_err(failed)?,
        };
        index::fill(set, &self.header, body).map_err(failed)
    }

    fn records(&self) -> &[u8] {
        self.bytes.get(HEADER_SIZE..).unwrap_or_default()
    }
}

/// Overwrites the header of a batch in place with the result of `change`. The CRC is recomputed only if a field
/// that it covers has changed.
///
/// Returns `false`, and changes nothing, if `batch` is too short to be one.
pub fn patch_header(batch: &mut [u8], change: impl FnOnce(&mut BatchHeader)) -> bool {
    let Some((bytes, records)) = batch.split_first_chunk_mut::<HEADER_SIZE>() else {
        return false;
    };
    let before = BatchHeader::parse(bytes);
    let mut after = before;
    change(&mut after);
    let outside_crc = BatchHeader {
        base_offset: after.base_offset,
        partition_leader_epoch: after.partition_leader_epoch,
        ..before
    };
    if after != outside_crc {
        after.crc = after.compute_crc(records);
    }
    *bytes = after.to_bytes();
    true
}

/// Resources for decoding: codec contexts, decompression buffers, and a limit.
pub struct RecordDecoder {
    decompressor: Decompressor,
    pool: BufferPool,
    decompressed_max: usize,
}

impl RecordDecoder {
    /// A batch that decompresses to more than `decompressed_max` bytes is an error.
    pub fn new(pool: BufferPool, decompressed_max: usize) -> Self {
        Self {
            decompressor: Decompressor::new(),
            pool,
            // Positions in a batch are 32 bits wide.
            decompressed_max: decompressed_max.min(u32::MAX as usize),
        }
    }

    /// `magic` is the format of the records: in the oldest, the checksum of LZ4's header means nothing.
    pub(super) fn decompress(&mut self, magic: i8, codec: Codec, input: &[u8]) -> Result<Bytes, BatchProblem> {
        let mut buffer = self.buffer_for(input);
        let (out, limit) = (&mut buffer, self.decompressed_max);
        let outcome = match magic {
            0 => self.decompressor.decompress_magic0(codec, input, out, limit),
            _ => self.decompressor.decompress(codec, input, out, limit),
        };
        outcome.map_err(BatchProblem::Decompress)?;
        Ok(buffer.freeze())
    }

    /// A buffer of the likely size: compression was worthwhile, so it saved at least half.
    fn buffer_for(&self, input: &[u8]) -> PooledBuffer {
        self.pool.take(input.len().saturating_mul(2).min(self.decompressed_max))
    }
}
