//! Replies of handlers.

use bytes::Bytes;

use super::{
    ReplyAddress,
    headers::{REPLY_ERROR, REPLY_ERROR_CLASS},
};
use crate::handler::OutRecord;

/// Longest error message in a reply.
const ERROR_BYTES_MAX: usize = 1_024;

/// A reply to the request that a handler has. The runtime knows from the request where it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutReply {
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    /// In order; the correlation id is added.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
    /// Records that are written beside the reply.
    pub emit: Vec<OutRecord>,
}

impl OutReply {
    pub fn new(value: impl Into<Bytes>) -> Self {
        Self {
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// A reply with a value in JSON.
    pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::new(serde_json::to_vec(value)?))
    }

    /// A reply that says that the request failed. It has no value; the error is in the headers
    /// [`REPLY_ERROR`] and [`REPLY_ERROR_CLASS`], and a `Requester` returns it as an error.
    pub fn error(class: &str, message: &str) -> Self {
        Self::default()
            .header(REPLY_ERROR, cut(message).to_owned())
            .header(REPLY_ERROR_CLASS, cut(class).to_owned())
    }

    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Adds a header; names may repeat.
    #[must_use]
    pub fn header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Writes another record beside the reply. The request is done when both are acknowledged.
    #[must_use]
    pub fn and_emit(mut self, record: OutRecord) -> Self {
        self.emit.push(record);
        self
    }

    /// The record of the reply.
    pub(crate) fn record(&self, to: &ReplyAddress) -> OutRecord {
        let mut record = OutRecord {
            topic: to.topic.clone(),
            partition: to.partition,
            key: self.key.clone(),
            value: self.value.clone(),
            headers: Vec::with_capacity(self.headers.len() + 1),
            timestamp: None,
        };
        let id = (
            Bytes::from_static(to.correlation_header.as_bytes()),
            Some(to.correlation_id.clone()),
        );
        record.headers.push(id);
        record.headers.extend(self.headers.iter().cloned());
        record
    }
}

fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(ERROR_BYTES_MAX)).unwrap_or(text)
}
