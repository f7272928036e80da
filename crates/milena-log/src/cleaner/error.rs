//! The errors of compaction about a single batch.

use milena_wire::{
    compression::CompressError,
    records::{AppendError, BatchError},
};

/// The reason why a batch cannot be compacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompactionError {
    #[error(transparent)]
    Unreadable(#[from] BatchError),
    #[error("codec {id} of the batch at offset {base_offset} is unknown")]
    UnknownCodec { base_offset: i64, id: u8 },
    #[error("offset {offset} is too far from the start of its batch at offset {base_offset}")]
    OffsetOutOfRange { base_offset: i64, offset: i64 },
    #[error("the records that are kept do not fit into a batch: {0}")]
    Record(#[from] AppendError),
    #[error("the records that are kept cannot be compressed: {0}")]
    Compress(#[from] CompressError),
}
