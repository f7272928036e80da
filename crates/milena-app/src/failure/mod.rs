//! Letters: records on their way to a retry topic or to the dead letters, and the headers that tell their story.
//!
//! Key, value and headers of the record stay as they are. What is said about it is added as headers, by default under
//! Milena's names, and if wanted under those of others too. All forms can be read. The record's timestamp is among them: a
//! letter itself has the time when it was written, because retention would delete it by an older one.

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

/// Where a record was when it came for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since 1970, or -1 if it has none.
    pub timestamp: i64,
}

impl Origin {
    /// What names an event whose producer gave it no name.
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

/// What the headers of a letter tell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailureRecord {
    pub origin: Origin,
    pub failure: Failure,
    /// How often its handler has tried.
    pub attempts: u32,
    /// When it failed last, in milliseconds since 1970.
    pub failed_at_ms: Option<i64>,
    /// When it failed for the first time.
    pub first_failed_at_ms: Option<i64>,
    /// Whose handler failed.
    pub group: Option<String>,
    /// Which instance of it.
    pub instance: Option<String>,
    /// When it is to be tried again, for a record in a retry topic.
    pub due_at_ms: Option<i64>,
    /// How often it was sent back to its own topic.
    pub returns: u8,
}

/// What went wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The type of the error.
    pub exception: String,
    /// Its text.
    pub reason: String,
    /// It and what caused it, if that was kept.
    pub stack: Option<String>,
}

/// Of a message so many bytes are kept.
pub(crate) const REASON_BYTES_MAX: usize = 1024;
/// Of a stack so many.
pub(crate) const STACK_BYTES_MAX: usize = 8192;

/// The start of a text, cut where a character ends.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let end = (0..=bytes_max).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
