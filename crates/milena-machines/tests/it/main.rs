//! The coordinators, rule by rule.

mod consumer;
mod transaction_add;
mod transaction_end;
mod transaction_init;
mod transaction_rig;
mod transaction_sweep;
