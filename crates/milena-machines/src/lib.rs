//! The decisions of both sides of Kafka's protocol, without IO.
//!
//! A machine is a plain value. It is told what happened and when; it says what to store and whom to answer. It knows no
//! socket, file, task, lock, clock or global randomness: `now` and a seed are arguments, and nothing it says depends on
//! the order of a hash map. So thousands of histories can be played in a test, and each again from its seed.
//!
//! The coordinators, [`GroupCoordinator`] and [`TransactionCoordinator`], share one shape:
//!
//! - `handle(context, request)` and `handle_timeout(now)` give effects: records to append and answers to send;
//! - what is durable changes only by `replay(record)`, which `handle` uses too, so that a coordinator started from its log
//!   is the one that wrote it;
//! - the driver appends the records as one batch, waits until they are durable, and sends the answers then. If it cannot
//!   append them, the machine is ahead of its log: the driver throws it away and starts one from the log.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod app;
pub mod assign;
pub mod backoff;
mod effects;
pub mod fetch;
pub mod group;
pub mod member;
mod partition;
pub mod produce;
mod random;
mod timers;
mod topics;
pub mod transaction;

pub use effects::{StoredRecord, Ticket};
pub use group::GroupCoordinator;
pub use partition::TopicPartition;
pub use random::Random;
pub use topics::{TopicImage, TopicsImage};
pub use transaction::TransactionCoordinator;
