//! Records to send, and their metadata after the acknowledgement.

use bytestring::ByteString;
use milena_wire::records::Header;

/// A record to send. It borrows its data, which is copied once, into the batch.
///
/// ```
/// use milena_client::producer::ProducerRecord;
///
/// let record = ProducerRecord::new("letters").key("milena").value("Dear Milena,");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ProducerRecord<'a> {
    pub topic: &'a str,
    /// `None` lets the partitioner choose.
    pub partition: Option<i32>,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone: compaction removes the key.
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header<'a>],
    /// Milliseconds since 1970; `None` is the time of sending. [`Producer::enqueue`](super::Producer::enqueue) uses a
    /// cheaper clock for it, which on Linux lags by up to one kernel tick, 1 to 10 ms.
    pub timestamp: Option<i64>,
}

impl<'a> ProducerRecord<'a> {
    /// A record without key, value and headers.
    pub fn new(topic: &'a str) -> Self {
        Self {
            topic,
            partition: None,
            key: None,
            value: None,
            headers: &[],
            timestamp: None,
        }
    }

    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    #[must_use]
    pub fn key<K: AsRef<[u8]> + ?Sized>(mut self, key: &'a K) -> Self {
        self.key = Some(key.as_ref());
        self
    }

    #[must_use]
    pub fn value<V: AsRef<[u8]> + ?Sized>(mut self, value: &'a V) -> Self {
        self.value = Some(value.as_ref());
        self
    }

    #[must_use]
    pub fn headers(mut self, headers: &'a [Header<'a>]) -> Self {
        self.headers = headers;
        self
    }

    #[must_use]
    pub fn timestamp(mut self, timestamp: i64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }
}

/// The location of an acknowledged record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMetadata {
    pub topic: ByteString,
    pub partition: i32,
    /// `None` with `acks=0`, and if the broker detected a duplicate of a retry.
    pub offset: Option<i64>,
    /// The timestamp of the record, or of the broker for topics with log append time.
    pub timestamp: i64,
}
