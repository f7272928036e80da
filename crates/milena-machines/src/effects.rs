//! What coordinators and their drivers speak of.

use bytes::Bytes;

/// Names a request whose answer may come later. The driver gives each request its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A record of an internal topic, as it is stored there. Without a value it deletes what the key names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub key: Bytes,
    pub value: Option<Bytes>,
}
