//! The decisions of both sides of Kafka's protocol, without IO.
//!
//! A machine is a plain value. Its inputs are events and the time (`handle_*`); its outputs are requests, replies,
//! records to store, and deadlines (`poll_*` and effects). It knows no socket, file, task, lock, clock or global
//! randomness: `now` and a seed are arguments, and no output depends on the order of a hash map. Thousands of histories
//! can be played in a test, and each again from its seed.
//!
//! The coordinators, [`GroupCoordinator`] and [`TransactionCoordinator`], share one shape:
//!
//! - `handle_request(context, request)` and `handle_timeout(now)` return effects: records to append and replies to
//!   send;
//! - durable state changes only by `replay(record)`, which `handle_request` uses too, so that a coordinator loaded from
//!   its log equals the one that wrote it;
//! - the driver appends the records as one batch, waits until they are durable, and then sends the replies. If the
//!   append fails, the machine is ahead of its log: the driver drops it and loads a new one from the log.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod app;
pub mod assign;
pub mod authorizer;
pub mod backoff;
mod effects;
pub mod fetch;
pub mod group;
pub mod member;
pub mod outbox;
mod partition;
pub mod produce;
pub mod quota;
mod random;
pub mod request_reply;
pub mod saga;
pub mod sasl;
mod timers;
pub mod token_refresh;
mod topics;
pub mod transaction;

pub use effects::{StoredRecord, Ticket};
pub use group::GroupCoordinator;
pub use partition::TopicPartition;
pub use random::Random;
pub use topics::{TopicImage, TopicsImage};
pub use transaction::TransactionCoordinator;
