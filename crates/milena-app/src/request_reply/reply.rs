//! Replies that a requester has received.

use milena_client::consumer::{ConsumerRecord, Headers};
use serde::de::DeserializeOwned;

use super::headers::{REPLY_ERROR, REPLY_ERROR_CLASS};

/// A reply. It shares the memory of the replies that came with it; [`detach`](Self::detach) it to keep it for long.
#[derive(Debug, Clone)]
pub struct Reply(ConsumerRecord);

impl Reply {
    pub(super) fn new(record: ConsumerRecord) -> Self {
        Self(record)
    }

    pub fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    pub fn value(&self) -> Option<&[u8]> {
        self.0.value()
    }

    /// The value, decoded as JSON. A reply without a value is `null`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(self.value().unwrap_or(b"null"))
    }

    pub fn headers(&self) -> Headers<'_> {
        self.0.headers()
    }

    /// Value of the last header with this name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let named = self.headers().filter(|header| header.key == name.as_bytes());
        named.last()?.value
    }

    /// The record of the reply topic.
    pub fn record(&self) -> &ConsumerRecord {
        &self.0
    }

    /// Copies the reply out of the memory that it shares with others.
    #[must_use]
    pub fn detach(&self) -> Self {
        Self(self.0.detach())
    }

    /// Class and message of the failure that it reports.
    pub(super) fn failure(&self) -> Option<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let message = self.header(REPLY_ERROR)?;
        let class = self.header(REPLY_ERROR_CLASS).map(text).unwrap_or_default();
        Some((class, text(message)))
    }
}
