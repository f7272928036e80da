//! The producer's side.

mod answers;
mod expiry;
mod numbers;
mod order;
mod rig;
mod transaction_errors;
mod transaction_v1;
mod transaction_v2;
