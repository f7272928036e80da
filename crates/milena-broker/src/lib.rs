//! A Kafka broker of one node.
//!
//! Where to start: [`config`] for the settings of topics and of the broker, under Kafka's names.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

pub mod config;
