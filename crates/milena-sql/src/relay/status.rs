//! Status of a relay.

use super::table::Backlog;

/// Snapshot of a relay.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct RelayStatus {
    /// Number of slots whose lease this relay has.
    pub slots: u32,
    /// Events that are sent and not acknowledged.
    pub in_flight: u64,
    /// Events that were acknowledged since the start.
    pub published: u64,
    /// Failed attempts to publish an event since the start.
    pub failures: u64,
    /// Unpublished rows of the whole table, counted every 5 s.
    pub backlog: Option<Backlog>,
    /// Aggregates and topics that wait for a retry.
    pub stopped: Vec<StoppedEvents>,
    /// Reason why the database or the cluster cannot be reached, if there is one.
    pub problem: Option<String>,
}

/// Events that wait for a retry, while others continue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoppedEvents {
    /// The aggregate as `type/id`, or the topic as `topic <name>`.
    pub name: String,
    /// Number of failed attempts in a row.
    pub attempts: u32,
    pub reason: String,
}
