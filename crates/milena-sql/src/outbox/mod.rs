//! The transactional outbox: events that are written in the application's own database transaction, and published to
//! Kafka by a relay afterwards.
//!
//! [`write()`] inserts a row into `milena_outbox` on the caller's connection, so the event commits or rolls back together
//! with the rest of the transaction. [`write_all`] does so for many events at once. The module `tokio_postgres` does the
//! same for transactions of that crate, and [`INSERT_POSTGRES`] and [`INSERT_SQLITE`] for any other program.
//!
//! # Order
//!
//! Events of one aggregate are published in the order in which their transactions commit. In PostgreSQL, a trigger of
//! the table takes a lock on the aggregate until the end of the transaction: two transactions that write events of the
//! same aggregate wait for each other. Write events last in a transaction, so that this wait is short and deadlocks are
//! rare; a deadlock fails one of the transactions with SQLSTATE 40P01 ([`OutboxError::is_retryable`]).
//!
//! A transaction with more than 256 events locks all of them with one lock, so that it cannot exhaust the
//! locks of the server. Other writers then wait until it ends. [`write_all`] takes that lock first; other programs do so
//! with `SELECT milena_outbox_lock()` as the first statement of the transaction.

mod error;
mod event;
mod table;
#[cfg(feature = "tokio-postgres")]
pub mod tokio_postgres;
mod write;

pub use error::{InvalidEvent, OutboxError};
pub use event::{AGGREGATE_ID_BYTES_MAX, EVENT_TYPE_BYTES_MAX, HEADERS_BYTES_MAX, OutboxEvent, TOPIC_BYTES_MAX};
pub use table::{OutboxRow, RowState, SlotOwner, rows, slot_owners};
pub use write::{INSERT_POSTGRES, INSERT_SQLITE, write, write_all};
