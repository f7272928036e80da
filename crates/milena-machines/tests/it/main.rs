//! The coordinators, rule by rule.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod consumer;
