//! Records to produce.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use milena_wire::records::{BatchBuilder, BatchOptions, Header, NewRecord};

/// A record of a test. A text alone is a value, a pair of texts is key and value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TestRecord {
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) headers: Vec<(String, Option<Bytes>)>,
    pub(crate) timestamp: Option<i64>,
}

impl TestRecord {
    pub fn new(value: impl AsRef<[u8]>) -> Self {
        Self {
            value: Some(Bytes::copy_from_slice(value.as_ref())),
            ..Self::default()
        }
    }

    /// A tombstone: a record without a value.
    pub fn tombstone(key: impl AsRef<[u8]>) -> Self {
        Self::default().key(key)
    }

    #[must_use]
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Self {
        self.key = Some(Bytes::copy_from_slice(key.as_ref()));
        self
    }

    /// One more header; names may repeat.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        let value = Bytes::copy_from_slice(value.as_ref());
        self.headers.push((name.into(), Some(value)));
        self
    }

    /// Milliseconds since 1970; without it, the moment in which the record is produced.
    #[must_use]
    pub fn timestamp(mut self, millis: i64) -> Self {
        self.timestamp = Some(millis);
        self
    }
}

impl From<&str> for TestRecord {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl From<&&str> for TestRecord {
    fn from(value: &&str) -> Self {
        Self::new(value)
    }
}

impl From<String> for TestRecord {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

impl From<&String> for TestRecord {
    fn from(value: &String) -> Self {
        Self::new(value)
    }
}

impl From<(&str, &str)> for TestRecord {
    fn from((key, value): (&str, &str)) -> Self {
        Self::new(value).key(key)
    }
}

/// All records in one batch, one after the other.
pub(crate) fn encode_batch(options: BatchOptions, records: &[TestRecord]) -> Bytes {
    let first = options.base_offset;
    let records: Vec<(i64, &TestRecord)> = (first..).zip(records).collect();
    encode_batch_at(options, &records)
}

/// All records in one batch, each at its offset.
pub(crate) fn encode_batch_at(options: BatchOptions, records: &[(i64, &TestRecord)]) -> Bytes {
    let now = now_ms();
    let first = options.base_offset;
    let mut builder = BatchBuilder::new(options);
    for (offset, record) in records {
        let headers = record.headers.iter().map(|(name, value)| Header {
            key: name.as_bytes(),
            value: value.as_deref(),
        });
        let headers: Vec<Header<'_>> = headers.collect();
        let record = NewRecord {
            timestamp: record.timestamp.unwrap_or(now),
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        let delta = i32::try_from(offset - first).expect("offsets that fit into a batch");
        builder
            .append_at(delta, &record)
            .expect("records that fit into a batch");
    }
    builder.finish()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
