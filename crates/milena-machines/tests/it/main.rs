//! The coordinators, rule by rule.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod transaction_add;
mod transaction_end;
mod transaction_histories;
mod transaction_init;
mod transaction_rig;
mod transaction_sweep;
