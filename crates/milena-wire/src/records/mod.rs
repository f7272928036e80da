//! Record batches: what a partition's log is made of.
//!
//! The way in: [`Batches`] cuts a buffer into batches by their headers alone; [`Batch::decode_into`] checks one,
//! decompresses it and fills a [`RecordSet`], whose records borrow from its buffer. The way out: [`BatchBuilder`]
//! encodes records as they arrive.

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
