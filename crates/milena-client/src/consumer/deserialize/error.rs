//! What can be wrong with the bytes of a record.

use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::TopicPartition;
use milena_wire::records::{Record, TimestampType};

use super::{BoxError, RecordField};

/// A record that cannot be read, with all there is of it, so that it can be kept elsewhere. The consumer has not moved
/// past it, but can.
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
    /// Which part of the record is to blame.
    pub origin: RecordField,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    /// In their order. Keys may repeat and need not be UTF-8.
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

/// There is nothing where something must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no {field}, and its type is not optional; read it as an Option, or with Nullable")]
pub struct NullField {
    pub field: RecordField,
}

/// Bytes that no serializer of Kafka's writes for the type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPlain {
    #[error("{expected} bytes are expected, not {found}")]
    Length { expected: usize, found: usize },
    #[error("it is not UTF-8 from byte {valid} on")]
    Utf8 { valid: usize },
    #[error("{found} is neither 1 for true nor 0 for false")]
    Bool { found: u8 },
    #[error("it is not an id of the form xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx")]
    Uuid,
    #[error("nothing is expected, not {found} bytes")]
    Void { found: usize },
}
