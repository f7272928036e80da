//! The consumer.

pub mod deserialize;
