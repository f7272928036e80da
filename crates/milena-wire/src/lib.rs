//! Kafka's wire protocol: encoding and decoding of messages and record batches.
//!
//! This crate works on bytes only: no clock, no sockets, no files, no async. Its input is untrusted, so no input
//! may cause a panic, an overflow, or an allocation larger than its own size justifies.
//!
//! Start reading at [`frame`] for request and response frames, [`message`] for the trait of all messages,
//! [`messages`] for the messages (generated), [`records`] for record batches, [`api`] and [`errors`] for the tables
//! of the protocol.

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
