//! Outcomes of handlers.

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;
use milena_client::producer::{Header, ProducerRecord};

use super::Fault;
use crate::request_reply::OutReply;

/// Outcome of a call that did not fail.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum Done {
    #[default]
    Ok,
    /// The record is not relevant, for this reason. Counted separately.
    Skip(Cow<'static, str>),
    /// The record was handled before. Counted separately.
    Duplicate,
    /// Calls the handler again after this time. It is not a failure and uses up no attempt.
    RetryAfter(Duration),
    /// Writes these records. The source record is done when all of them are acknowledged, or when the transaction
    /// commits.
    Emit(Vec<OutRecord>),
    /// Writes a reply to the topic and partition that the record names. The record is done when it is acknowledged, or
    /// when the transaction commits. A record that asks for no reply is done at once.
    Reply(Box<OutReply>),
}

impl Done {
    /// A reply with this value.
    pub fn reply(value: impl Into<Bytes>) -> Self {
        OutReply::new(value).into()
    }

    /// A reply with a value in JSON.
    pub fn reply_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(OutReply::json(value)?.into())
    }
}

impl From<OutReply> for Done {
    fn from(reply: OutReply) -> Self {
        Self::Reply(Box::new(reply))
    }
}

/// An output record that owns its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutRecord {
    pub topic: String,
    /// `None` lets the partitioner choose.
    pub partition: Option<i32>,
    pub key: Option<Bytes>,
    /// `None` is a tombstone.
    pub value: Option<Bytes>,
    /// In order; names may repeat.
    pub headers: Vec<(Bytes, Option<Bytes>)>,
    /// Milliseconds since 1970; `None` is the time of sending.
    pub timestamp: Option<i64>,
}

impl OutRecord {
    /// A record without key, value and headers.
    pub fn new(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    #[must_use]
    pub fn value(mut self, value: impl Into<Bytes>) -> Self {
        self.value = Some(value.into());
        self
    }

    /// Sets the value as JSON.
    pub fn json<T: serde::Serialize + ?Sized>(self, value: &T) -> Result<Self, serde_json::Error> {
        Ok(self.value(serde_json::to_vec(value)?))
    }

    /// Adds a header; names may repeat.
    #[must_use]
    pub fn header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), Some(value.into())));
        self
    }

    /// Borrows the record for a producer.
    pub(crate) fn lend<'a>(&'a self, headers: &'a [Header<'a>]) -> ProducerRecord<'a> {
        ProducerRecord {
            topic: &self.topic,
            partition: self.partition,
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            headers,
            timestamp: self.timestamp,
        }
    }
}

impl From<OutRecord> for Done {
    fn from(record: OutRecord) -> Self {
        Self::Emit(vec![record])
    }
}

impl From<Vec<OutRecord>> for Done {
    fn from(records: Vec<OutRecord>) -> Self {
        Self::Emit(records)
    }
}

#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "return `()`, `Done`, or a `Result` of either with an error type of your own that implements \
            `std::error::Error + Send + Sync + 'static`, or with `Fault`",
    note = "a `String` or a `Box<dyn Error>` is no such error: `.map_err(Fault::retry)` makes a `Fault` of text and of \
            `Box<dyn Error + Send + Sync>`"
)]
/// Return type of a handler: `()`, a [`Done`], or a `Result` of either with any error.
pub trait IntoOutcome {
    fn into_outcome(self) -> Result<Done, Fault>;
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Result<Done, Fault> {
        Ok(Done::Ok)
    }
}

impl IntoOutcome for Done {
    fn into_outcome(self) -> Result<Done, Fault> {
        Ok(self)
    }
}

impl<T: IntoOutcome, E: Into<Fault>> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Result<Done, Fault> {
        self.map_err(Into::into).and_then(IntoOutcome::into_outcome)
    }
}
