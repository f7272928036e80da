//! Integration tests on real databases.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

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
