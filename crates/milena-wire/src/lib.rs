//! Kafka on the wire: bytes to messages and back.
//!
//! This room knows bytes and nothing else: no clock, no sockets, no files, no async. What it reads may come from anyone,
//! so no input may panic, overflow, or allocate more than its own size justifies.
//!
//! Where to start: [`frame`] for requests and responses as they travel, [`message`] for what every message can do,
//! [`messages`] for the messages themselves (generated), [`records`] for record batches, [`api`] and [`errors`] for the
//! tables of the protocol.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod api;
pub mod compression;
pub mod decode;
pub mod encode;
mod error_responses;
pub mod errors;
pub mod frame;
pub mod message;
pub mod messages;
pub mod pool;
pub mod prefixed;
pub mod records;
pub mod tags;
mod uuid;
mod varint;

pub use uuid::{Uuid, UuidError};
