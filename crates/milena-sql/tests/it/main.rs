//! Integration tests on real databases.

mod checkpoints;
mod databases;
mod migrations;
mod offsets;
mod once;
mod outbox;
mod outbox_order;
#[cfg(feature = "tokio-postgres")]
mod outbox_tokio_postgres;
mod relay;
mod saga_store;
mod sagas;
