//! Record batches, of which a partition's log consists.
//!
//! Decoding: [`Batches`] splits a buffer into batches by their headers alone; [`Batch::decode_into`] verifies one,
//! decompresses it and fills a [`RecordSet`], whose records borrow from its buffer. Encoding: [`BatchBuilder`]
//! encodes records as they are appended.

mod batch;
mod builder;
mod closed;
mod control;
mod error;
mod header;
mod index;
mod legacy;
mod record;
mod split;

pub use batch::{RecordBatch, RecordDecoder, patch_header};
pub use builder::{AppendError, BatchBuilder, BatchOptions, NewRecord};
pub use closed::{BatchProducer, ClosedBatch};
pub use control::ControlRecord;
pub use error::{BatchError, BatchProblem};
pub use header::{Attributes, BATCH_OVERHEAD, BatchHeader, HEADER_SIZE, NO_PRODUCER, NO_SEQUENCE, TimestampType};
pub use legacy::LegacyMessage;
pub use record::{Header, Headers, OwnedRecord, Record, RecordSet};
pub use split::{Batch, Batches};
