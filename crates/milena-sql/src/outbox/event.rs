//! Events of the outbox.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::Serialize;
use uuid::Uuid;

use super::InvalidEvent;

/// Longest name of a topic that Kafka accepts.
pub const TOPIC_BYTES_MAX: usize = 249;
/// Longest id of an aggregate. It becomes the key of the record.
pub const AGGREGATE_ID_BYTES_MAX: usize = 1024;
/// Longest type of an event.
pub const EVENT_TYPE_BYTES_MAX: usize = 1024;
/// Greatest sum of the lengths of all names and values of headers.
pub const HEADERS_BYTES_MAX: usize = 64 * 1024;

/// Headers that the relay adds to every record.
const RESERVED_HEADERS: [&str; 2] = ["id", "eventType"];
/// Ending of the topic of an event that names none.
const TOPIC_SUFFIX: &str = ".events";

/// An event for the outbox.
///
/// It becomes a record of the topic `<aggregate_type>.events`, with the aggregate's id as key, the payload as value and
/// the headers `id` and `eventType`.
///
/// ```
/// # use milena_sql::outbox::OutboxEvent;
/// # fn main() -> Result<(), milena_sql::outbox::InvalidEvent> {
/// #[derive(serde::Serialize)]
/// struct OrderPlaced { order: u64, cents: u64 }
///
/// let event = OutboxEvent::new("orders", "order-7", "OrderPlaced").json(&OrderPlaced { order: 7, cents: 1250 })?;
/// assert_eq!(event.record_topic(), "orders.events");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEvent {
    pub(super) id: Option<Uuid>,
    pub(super) aggregate_type: String,
    pub(super) aggregate_id: String,
    pub(super) event_type: String,
    pub(super) payload: Option<Bytes>,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) topic: Option<String>,
}

impl OutboxEvent {
    /// An event without a payload: the record is a tombstone unless one is set.
    pub fn new(
        aggregate_type: impl Into<String>,
        aggregate_id: impl Into<String>,
        event_type: impl Into<String>,
    ) -> Self {
        Self {
            id: None,
            aggregate_type: aggregate_type.into(),
            aggregate_id: aggregate_id.into(),
            event_type: event_type.into(),
            payload: None,
            headers: BTreeMap::new(),
            topic: None,
        }
    }

    /// Sets the id, which is a new UUID of version 7 otherwise. A second event with the same id is refused by the table.
    #[must_use]
    pub fn id(mut self, id: Uuid) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the value of the record.
    #[must_use]
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Sets the value of the record to the JSON text of `value`.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, InvalidEvent> {
        let payload = serde_json::to_vec(value).map_err(InvalidEvent::Json)?;
        Ok(self.payload(payload))
    }

    /// Adds a header, or replaces the one of that name.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Adds a header unless there is one of that name.
    pub(crate) fn header_or(mut self, name: &str, value: impl FnOnce() -> Option<String>) -> Self {
        if !self.headers.contains_key(name)
            && let Some(value) = value()
        {
            self.headers.insert(name.to_owned(), value);
        }
        self
    }

    /// Sets the topic, which is `<aggregate_type>.events` otherwise.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Topic of the record.
    pub fn record_topic(&self) -> String {
        match &self.topic {
            Some(topic) => topic.clone(),
            None => format!("{}{TOPIC_SUFFIX}", self.aggregate_type),
        }
    }

    /// Checks the limits of the database and of Kafka. The writers call it.
    pub fn validate(&self) -> Result<(), InvalidEvent> {
        check("aggregate type", &self.aggregate_type, TOPIC_BYTES_MAX)?;
        check("aggregate id", &self.aggregate_id, AGGREGATE_ID_BYTES_MAX)?;
        check("event type", &self.event_type, EVENT_TYPE_BYTES_MAX)?;
        check_topic(self.record_topic())?;
        for (name, value) in &self.headers {
            if name.is_empty() {
                return Err(InvalidEvent::Empty { field: "header name" });
            }
            if RESERVED_HEADERS.contains(&name.as_str()) {
                return Err(InvalidEvent::ReservedHeader { name: name.clone() });
            }
            if name.contains('\0') || value.contains('\0') {
                return Err(InvalidEvent::Nul { field: "header" });
            }
        }
        let bytes: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > HEADERS_BYTES_MAX {
            return Err(InvalidEvent::TooLong {
                field: "sum of the headers",
                bytes,
                max: HEADERS_BYTES_MAX,
            });
        }
        Ok(())
    }

    pub(super) fn id_or_new(&self) -> Uuid {
        self.id.unwrap_or_else(Uuid::now_v7)
    }

    /// Headers as the table has them.
    pub(super) fn headers_json(&self) -> String {
        let object = self
            .headers
            .iter()
            .map(|(name, value)| (name.clone(), value.clone().into()));
        serde_json::Value::Object(object.collect()).to_string()
    }
}

fn check(field: &'static str, text: &str, max: usize) -> Result<(), InvalidEvent> {
    if text.is_empty() {
        return Err(InvalidEvent::Empty { field });
    }
    // PostgreSQL cannot store it in a text.
    if text.contains('\0') {
        return Err(InvalidEvent::Nul { field });
    }
    if text.len() > max {
        let bytes = text.len();
        return Err(InvalidEvent::TooLong { field, bytes, max });
    }
    Ok(())
}

fn check_topic(topic: String) -> Result<(), InvalidEvent> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if topic.len() > TOPIC_BYTES_MAX {
        return Err(InvalidEvent::TooLong {
            field: "topic",
            bytes: topic.len(),
            max: TOPIC_BYTES_MAX,
        });
    }
    if topic.is_empty() || topic == "." || topic == ".." || !topic.bytes().all(is_legal) {
        return Err(InvalidEvent::Topic { topic });
    }
    Ok(())
}
