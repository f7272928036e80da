//! Idempotent handlers.

mod batches;
mod bugs;
mod cleaning;
mod conflicts;
mod lost_connections;
mod proxy;
mod redelivery;
mod shop;
