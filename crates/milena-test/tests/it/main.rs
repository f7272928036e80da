//! The test kit, and the consumer under its faults.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod broker;
mod committing;
mod consumers;
mod faults;
mod groups;
mod kit;
mod leaders;
mod mock;
mod parity;
mod reading;
mod security;
mod wire;
