//! Effects in databases: what an application writes to PostgreSQL or SQLite agrees with what it reads from and writes to
//! Kafka.
//!
//! [`Database`] is a pool of connections. [`Database::migrate`] creates the tables; `milena sql init` does the same from
//! the command line.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

mod checkpoints;
mod connection;
mod database;
mod migrations;
pub mod offsets;
pub mod once;
pub mod outbox;
pub mod relay;
pub mod saga;

pub use checkpoints::{DamagedSnapshot, SqlSnapshots};
pub use connection::{Connection, Transaction};
pub use database::{ConnectError, Database, Dialect};
pub use migrations::{MIGRATIONS, MigrateError, Migration, MigrationStatus, script};
pub use sqlx;
