//! What is sent, and what became of it.

use bytestring::ByteString;
use milena_wire::records::Header;

/// A record to be sent. It borrows: its bytes are copied once, into the batch.
///
/// ```
/// use milena_client::producer::ProducerRecord;
///
/// let record = ProducerRecord::new("letters").key("milena").value("Dear Milena,");
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ProducerRecord<'a> {
    pub topic: &'a str,
    /// `None` leaves it to the partitioner.
    pub partition: Option<i32>,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone: compaction forgets the key.
    pub value: Option<&'a [u8]>,
    pub headers: &'a [Header<'a>],
    /// Milliseconds since 1970; `None` is the time of sending. For records that nobody waits for it is taken from a cheaper
    /// clock, which on Linux is behind by up to one tick of the kernel, 1 to 10 ms.
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

/// Where a record is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMetadata {
    pub topic: ByteString,
    pub partition: i32,
    /// `None` with `acks=0`, and if the broker had the record already when it was sent once more.
    pub offset: Option<i64>,
    /// The record's own, or that of the broker if the topic has log append time.
    pub timestamp: i64,
}
