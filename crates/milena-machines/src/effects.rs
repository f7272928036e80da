//! Types that coordinators and their drivers share.

use bytes::Bytes;

/// Id of a request whose reply may come later. The driver gives each request its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A record of an internal topic in its stored form. Without a value it deletes its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRecord {
    pub key: Bytes,
    pub value: Option<Bytes>,
}
