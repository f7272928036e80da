//! The producer's side.

pub mod partition;
