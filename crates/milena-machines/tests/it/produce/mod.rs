//! The producer's side.

mod expiry;
mod order;
mod responses;
mod rig;
mod sequences;
mod transaction_errors;
mod transaction_v1;
mod transaction_v2;
