//! Idempotent handlers: the effect of a record and the note that it was handled are one transaction.
//!
//! A handler that takes [`Tx`] gets a transaction in which the event is already noted as processed. It commits when the
//! handler has succeeded. A record that was handled before is skipped without a call, as [`Done::Duplicate`]:
//!
//! ```
//! use milena_app::prelude::*;
//! use milena_sql::{once::{PgTx, fault}, sqlx};
//!
//! #[derive(serde::Deserialize)]
//! struct OrderPlaced {
//!     id: i64,
//!     cents: i64,
//! }
//!
//! async fn invoice(Event(order): Event<OrderPlaced>, mut tx: PgTx) -> Result<(), Fault> {
//!     sqlx::query("INSERT INTO invoices (order_id, cents) VALUES ($1, $2)")
//!         .bind(order.id)
//!         .bind(order.cents)
//!         .execute(&mut *tx)
//!         .await
//!         .map_err(fault)?;
//!     Ok(())
//! }
//! ```
//!
//! The application has the database as a state: `.state(database)` or `.state(pool)`.
//!
//! [`Done::Duplicate`]: milena_app::handler::Done::Duplicate

mod clean;
mod conflict;
mod dialect;
mod error;
mod key;
mod outbox;
mod tx;

pub use clean::{CleanError, CleanUp, CleanUpTask, Cleaned, KEEP, TopicRetention};
pub use conflict::{Inserted, SeveralRows, VersionConflict, Versioned, violated_key};
pub use dialect::TxDatabase;
pub use error::{DEPENDENCY, HandlerKeptTx, StatementIgnored, fault};
pub use key::EventIdError;
pub(crate) use outbox::{outbox_fault, with_cause};
pub use tx::{PgTx, SqliteTx, Tx};
pub(crate) use tx::{Slot, begin_on, note_event, take};
