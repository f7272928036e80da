//! SCRAM: its keys, its messages, and both ends of its exchange.

mod client;
mod keys;
mod messages;
mod server;
#[cfg(test)]
mod tests;

pub(super) use client::ScramClient;
pub use keys::{SaltedPassword, ScramCredential};
pub(super) use server::{ClientFirst, ScramServer, nonce_text};

/// The fewest iterations that either side accepts.
pub const ITERATIONS_MIN: u32 = 4096;

/// The most iterations that the client computes: about half a second of CPU time. A broker may ask for any number.
pub const CLIENT_ITERATIONS_MAX: u32 = 1_000_000;

/// Random bytes of a nonce: 144 bits.
pub const NONCE_BYTES: usize = 18;
