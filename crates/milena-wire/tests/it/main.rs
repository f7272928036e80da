//! The tests of the crate's public face, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod arbitrary;
mod describe;
mod error_responses;
mod every_message;
mod frames;
mod golden_batches;
mod golden_messages;
mod golden_tables;
mod hostile;
mod records;
mod round_trip;
mod samples;
mod vectors;
