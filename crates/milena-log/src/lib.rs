//! Records on disk: the log of a partition in Kafka's own files.
//!
//! This room touches files, through [`disk`] and nothing else; it knows no network, no groups and no clock: the time is
//! an argument. Where to start: [`Log`] for appending and keeping, [`LogView`] for reading, `load` for what happens when
//! a log is opened after a crash.

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

pub use cleaner::{CompactionLimits, CompactionStats, Dirtiness};
pub use config::{Durability, LogConfig};
pub use damage::{Damage, Recovery};
pub use error::{AppendError, DeleteRecordsError, StorageError};
pub use ledger::{Ledger, LogMark};
pub use load::Opening;
pub use log::{Appended, Log};
pub use producers::{AbortedTransaction, Duplicate, Producer, ProducerError, Producers};
pub use slice::FileSlice;
pub use validate::{InvalidBatch, RecordProblem, RejectedRecord, RejectedRecords};
pub use view::{Isolation, LogView, OffsetAndTime, ReadError};
