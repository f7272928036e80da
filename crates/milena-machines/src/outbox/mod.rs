//! The relay of an outbox table: which rows are published when, and by which of several relays.
//!
//! [`Relay`] decides; its driver executes statements and sends events. Conditions that hold:
//!
//! - A row is claimed by its state. Each read begins at the start of the table and leaves out the rows in memory
//!   ([`ReadCall::held`]), because rows of slow transactions appear behind rows that were read before. The rows of a
//!   read are from one snapshot and in order, so no event of an aggregate is read without the earlier ones.
//! - One event of an aggregate is in flight at a time: if it fails, no later one has been written.
//! - A read that began before rows were given up is discarded: it left them out, and may contain later ones.
//! - An event is sent only if its delivery ends within the lease, so that a successor is not overtaken.
//! - A slot is released when none of its rows is in flight or unmarked.
//!
//! Order of calls: `handle_*` with what happened, then all `poll_*` until they return nothing, then wait until
//! [`Relay::poll_timeout`] and call [`Relay::handle_timeout`].

mod config;
mod leases;
mod relay;
mod rows;
mod sleep;
mod stops;
#[cfg(test)]
mod tests;

pub use config::RelayConfig;
pub use leases::{GrantedLeases, LeaseCall, SlotLease, claim_max};
pub use relay::{FailureNote, ReadCall, RefusedScope, Relay};
pub use rows::{Aggregate, Row};
pub use stops::{Scope, Stop};
