//! Why a batch cannot be read.

use crate::compression::DecompressError;

/// A batch that cannot be read; the position of a reader can still move past it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record batch at offset {base_offset}: {problem}")]
pub struct BatchError {
    pub base_offset: i64,
    pub problem: BatchProblem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchProblem {
    #[error("length {length} is too small for a batch")]
    BadLength { length: i32 },
    #[error("format {magic} is unknown")]
    UnknownMagic { magic: i8 },
    #[error("checksum is {computed:#010x}, but {stored:#010x} was stored")]
    CrcMismatch { stored: u32, computed: u32 },
    #[error("codec {id} is unknown")]
    UnknownCodec { id: u8 },
    #[error(transparent)]
    Decompress(DecompressError),
    #[error("{count} records cannot fit in {bytes} bytes")]
    BadCount { count: i32, bytes: usize },
    #[error("record {record} is malformed: {reason}")]
    BadRecord { record: usize, reason: &'static str },
    #[error("{bytes} bytes after the last record")]
    TrailingBytes { bytes: usize },
}

impl BatchProblem {
    pub(super) fn at(self, base_offset: i64) -> BatchError {
        BatchError {
            base_offset,
            problem: self,
        }
    }
}
