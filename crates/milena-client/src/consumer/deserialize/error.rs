//! Deserialization errors.

use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::TopicPartition;
use milena_wire::records::{Record, TimestampType};

use super::{BoxError, RecordField};

/// A record that cannot be deserialized, with all its data, so that it can be stored elsewhere. The consumer can
/// continue after it.
#[derive(Debug, thiserror::Error)]
#[error("the {origin} of {topic}-{partition} at offset {offset} cannot be read: {reason}")]
#[non_exhaustive]
pub struct DeserializeError {
    pub topic: ByteString,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since 1970, or -1 if it has none.
    pub timestamp: i64,
    pub timestamp_type: TimestampType,
    /// The field that cannot be read.
    pub origin: RecordField,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    /// The headers in their order. Keys may repeat and need not be UTF-8.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
    #[source]
    pub reason: BoxError,
}

impl DeserializeError {
    /// Copies the record, so that the error keeps no batch in memory.
    pub fn new(partition: &TopicPartition, record: &Record<'_>, origin: RecordField, reason: BoxError) -> Self {
        let headers = record.headers();
        let headers = headers.map(|header| (copy(header.key), header.value.map(copy)));
        Self {
            topic: ByteString::from(&*partition.topic),
            partition: partition.partition,
            offset: record.offset(),
            timestamp: record.timestamp(),
            timestamp_type: record.timestamp_type(),
            origin,
            key: record.key().map(copy),
            value: record.value().map(copy),
            headers: headers.collect(),
            reason,
        }
    }
}

fn copy(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// A null key or value where the type requires data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {field} is null and its type is not optional; use an Option, or Nullable")]
pub struct NullField {
    pub field: RecordField,
}

/// Bytes that are not valid for the type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPlain {
    #[error("expected {expected} bytes, found {found}")]
    Length { expected: usize, found: usize },
    #[error("invalid UTF-8 at byte {valid}")]
    Utf8 { valid: usize },
    #[error("expected 0 or 1 for a boolean, found {found}")]
    Bool { found: u8 },
    #[error("not a UUID of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")]
    Uuid,
    #[error("expected null, found {found} bytes")]
    Void { found: usize },
}
