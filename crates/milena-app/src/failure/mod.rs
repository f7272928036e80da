//! Failure records: copies of records in retry and dead letter topics, with headers that describe the failure.
//!
//! Key, value and headers of the original record stay unchanged. The failure headers are added in Milena's scheme, and
//! on request in the schemes of other tools. Every scheme can be read. The original timestamp is one of the headers:
//! the failure record itself carries the time of writing, because retention would delete it by an older one.

mod date;
mod headers;
mod read;
mod write;

pub use date::{parse_rfc3339, rfc3339};
pub use headers::Scheme;
pub(crate) use headers::{DUE_AT, EVENT_IDS, FIRST_FAILED_AT, ORIGINAL_TIMESTAMP, RETRY_COUNT, RETURNS};
pub use read::read;
pub(crate) use read::{HeaderTrust, read_trusted, returns};
pub(crate) use write::write;

/// Position of a record in the topic where it was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since 1970, or -1 if the record has no timestamp.
    pub timestamp: i64,
}

impl Origin {
    /// Id of an event whose producer gave it none.
    pub(crate) fn event_id(&self) -> String {
        let Self {
            topic,
            partition,
            offset,
            ..
        } = self;
        format!("{topic}-{partition}-{offset}")
    }
}

/// The failure headers of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureRecord {
    pub origin: Origin,
    pub failure: Failure,
    /// Number of handler calls so far.
    pub attempts: u32,
    /// Time of the last failure, in milliseconds since 1970.
    pub failed_at_ms: Option<i64>,
    /// Time of the first failure, in milliseconds since 1970.
    pub first_failed_at_ms: Option<i64>,
    /// Consumer group whose handler failed.
    pub group: Option<String>,
    /// Application instance whose handler failed.
    pub instance: Option<String>,
    /// Time of the next attempt in milliseconds since 1970; set in retry topics.
    pub due_at_ms: Option<i64>,
    /// Number of times the record was sent back to its own topic.
    pub returns: u8,
}

/// The error of a handler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// Class of the error: see [`Fault::class`](crate::handler::Fault::class).
    pub exception: String,
    /// Text of the error.
    pub reason: String,
    /// The error and its causes, unless the policy leaves them out.
    pub stack: Option<String>,
}

/// Bound of `dlq.failure.reason`.
pub(crate) const REASON_BYTES_MAX: usize = 1024;
/// Bound of `dlq.stacktrace`.
pub(crate) const STACK_BYTES_MAX: usize = 8192;

/// Returns the longest prefix of `text` within the bound that ends at a character boundary.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
