//! The tests of the crate's public face, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

mod append;
mod batches;
mod compaction;
mod compaction_model;
mod damage;
mod fragile;
mod keyed;
mod model;
mod random;
mod recovery;
mod retired;
mod storage;
