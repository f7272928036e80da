//! Reads failure headers.

use milena_client::consumer::{Headers, RecordRef};

use super::{
    DUE_AT, FIRST_FAILED_AT, Failure, FailureRecord, ORIGINAL_TIMESTAMP, Origin, RETRY_COUNT, RETURNS, date,
    headers::{Names, Numbers, X_ERROR, readable},
};

/// Reads the failure headers of a record, in any scheme. Returns `None` if no header names the origin.
///
/// Any producer can write such headers. Trust them only on topics that your application alone writes to.
pub fn read(headers: Headers<'_>) -> Option<FailureRecord> {
    let headers: Vec<(&[u8], &[u8])> = headers.filter_map(|header| Some((header.key, header.value?))).collect();
    let found = HeaderLookup { headers: &headers };
    readable().find_map(|names| found.failure_record(names))
}

/// Which failure headers the runtime trusts on a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeaderTrust {
    None,
    /// All: only the runtime writes to the topic.
    All,
    /// Those of records that this group has returned to the topic.
    Returned,
}

/// Reads the failure headers of a record as far as `trust` allows.
pub(crate) fn read_trusted(trust: HeaderTrust, group: &str, record: RecordRef<'_>) -> Option<FailureRecord> {
    match trust {
        HeaderTrust::None => None,
        HeaderTrust::All => read(record.headers()),
        HeaderTrust::Returned if returns(record.headers()) == 0 => None,
        // Forged headers that pass this check can only name an earlier record of the same partition.
        HeaderTrust::Returned => read(record.headers()).filter(|failure_record| {
            let origin = &failure_record.origin;
            failure_record.group.as_deref() == Some(group)
                && (origin.topic.as_str(), origin.partition) == (record.topic(), record.partition())
                && (0..record.offset()).contains(&origin.offset)
        }),
    }
}

/// Number of times any group has returned the record to its own topic.
pub(crate) fn returns(headers: Headers<'_>) -> u8 {
    let claimed = headers.filter(|header| header.key == RETURNS.as_bytes()).last();
    let text = claimed.and_then(|header| std::str::from_utf8(header.value?).ok());
    text.and_then(|text| text.trim().parse().ok()).map_or(0, clamp_count)
}

/// Clamps a claimed count into the range of `u8`.
fn clamp_count(claimed: i64) -> u8 {
    u8::try_from(claimed.max(0)).unwrap_or(u8::MAX)
}

struct HeaderLookup<'a> {
    headers: &'a [(&'a [u8], &'a [u8])],
}

impl<'a> HeaderLookup<'a> {
    fn failure_record(&self, names: &Names) -> Option<FailureRecord> {
        let timestamp = self
            .number(names.timestamp, names.numbers)
            .or_else(|| self.number(ORIGINAL_TIMESTAMP, Numbers::Text));
        let origin = Origin {
            topic: self.text(names.topic)?,
            partition: i32::try_from(self.number(names.partition, names.numbers)?).ok()?,
            offset: self.number(names.offset, names.numbers)?,
            timestamp: timestamp.unwrap_or(-1),
        };
        let failure = Failure {
            exception: self.text(names.exception).unwrap_or_default(),
            reason: self
                .text(names.reason)
                .or_else(|| self.text(X_ERROR))
                .unwrap_or_default(),
            stack: self.text(names.stack),
        };
        let attempts = self
            .number(RETRY_COUNT, Numbers::Text)
            .or_else(|| self.number(names.attempts, names.numbers));
        Some(FailureRecord {
            origin,
            failure,
            attempts: attempts.and_then(|attempts| u32::try_from(attempts).ok()).unwrap_or(0),
            failed_at_ms: self.text(names.failed_at).and_then(|text| date::parse_rfc3339(&text)),
            first_failed_at_ms: self.number(FIRST_FAILED_AT, Numbers::Text),
            group: self.text(names.group),
            instance: self.text(names.instance),
            due_at_ms: self.number(DUE_AT, Numbers::Text),
            returns: self.number(RETURNS, Numbers::Text).map_or(0, clamp_count),
        })
    }

    /// Value of the last header with this name; the last one wins, as in Kafka.
    fn last(&self, name: &str) -> Option<&'a [u8]> {
        if name.is_empty() {
            return None;
        }
        let mut headers = self.headers.iter().rev();
        headers
            .find(|(key, _)| *key == name.as_bytes())
            .map(|(_, value)| *value)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.last(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    fn number(&self, name: &str, numbers: Numbers) -> Option<i64> {
        let value = self.last(name)?;
        match numbers {
            Numbers::Text => std::str::from_utf8(value).ok()?.trim().parse().ok(),
            Numbers::Bytes => big_endian(value),
        }
    }
}

/// Decodes a number as Java's `ByteBuffer` and `BigInteger` write it.
fn big_endian(value: &[u8]) -> Option<i64> {
    let (first, len) = (*value.first()?, value.len());
    if len > 8 {
        return None;
    }
    let sign = if first >= 0x80 { -1 } else { 0 };
    Some(
        value
            .iter()
            .fold(sign, |number: i64, byte| (number << 8) | i64::from(*byte)),
    )
}
