//! The log of a partition, in Kafka's own file formats.
//!
//! This crate touches files, through [`disk`] only; it has no network, no groups and no clock: the time is an
//! argument. Start reading at [`Log`] for appends and retention, [`LogView`] for reads, `load` for recovery after a
//! crash.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod aborted;
pub mod checkpoint;
mod cleaner;
mod config;
mod damage;
pub mod disk;
mod epochs;
mod error;
mod index;
pub mod inspect;
mod ledger;
mod load;
mod log;
mod producers;
mod segment;
mod slice;
mod snapshot;
mod sums;
mod survey;
mod validate;
mod view;
mod writer;

pub use cleaner::{CompactionError, CompactionLimits, CompactionStats, Dirtiness};
pub use config::{Durability, LogConfig};
pub use damage::{Damage, Recovery};
pub use error::{AppendError, DeleteRecordsError, StorageError};
pub use ledger::{Ledger, LogMark};
pub use load::Opening;
pub use log::{Appended, EndMarker, Log};
pub use producers::{AbortedTransaction, Duplicate, Producer, ProducerError, Producers};
pub use slice::FileSlice;
pub use validate::{InvalidBatch, RecordProblem, RejectedRecord, RejectedRecords};
pub use view::{Isolation, LogView, OffsetAndTime, ReadError};
