//! A row of the outbox as a record for Kafka.

use std::sync::Arc;

use milena_client::producer::{Header, ProducerRecord};
use milena_machines::outbox::{Aggregate, Row};

/// Columns of a row: sequence, slot, id, aggregatetype, aggregateid, type, payload, headers, topic, and the number of rows
/// that the read would have without its bound of bytes.
pub(super) type Columns = (
    i64,
    i64,
    String,
    String,
    String,
    String,
    Option<Vec<u8>>,
    String,
    Option<String>,
    i64,
);

/// An event to publish.
#[derive(Debug)]
pub(super) struct StoredEvent {
    id: String,
    key: Arc<str>,
    event_type: String,
    payload: Option<Vec<u8>>,
    headers: serde_json::Map<String, serde_json::Value>,
    pub(super) topic: Arc<str>,
    /// Reason why the row can never be published.
    pub(super) problem: Option<String>,
}

pub(super) fn row(columns: Columns) -> Row<Arc<StoredEvent>> {
    let (sequence, slot, id, kind, key, event_type, payload, headers, topic, _) = columns;
    let topic: Arc<str> = topic.map_or_else(|| format!("{kind}.events").into(), Into::into);
    let key: Arc<str> = key.into();
    let size = payload.as_ref().map_or(0, Vec::len) + headers.len();
    let (headers, problem) = match serde_json::from_str(&headers) {
        Ok(serde_json::Value::Object(headers)) => (headers, None),
        _ => (
            serde_json::Map::new(),
            Some(r#"the column headers is not a JSON object; use {"name": "value"}"#.to_owned()),
        ),
    };
    Row {
        sequence,
        slot: u16::try_from(slot).unwrap_or(0),
        aggregate: Aggregate {
            kind: kind.into(),
            id: Arc::clone(&key),
        },
        topic: Arc::clone(&topic),
        bytes: u64::try_from(size).unwrap_or(u64::MAX),
        payload: Arc::new(StoredEvent {
            id,
            key,
            event_type,
            payload,
            headers,
            topic,
            problem,
        }),
    }
}

impl StoredEvent {
    /// Calls `send` with the record: key = aggregate id, headers `id`, `eventType` and those of the row.
    pub(super) fn with_record<R>(&self, send: impl FnOnce(ProducerRecord<'_>) -> R) -> R {
        let texts = self.header_texts();
        let headers = self.headers(&texts);
        send(self.record(&headers))
    }

    fn record<'a>(&'a self, headers: &'a [Header<'a>]) -> ProducerRecord<'a> {
        let record = ProducerRecord::new(&self.topic).key(self.key.as_bytes());
        let record = record.headers(headers);
        match &self.payload {
            Some(payload) => record.value(payload),
            None => record,
        }
    }

    /// Values that are not strings, which the writers do not write, as JSON.
    fn header_texts(&self) -> Vec<String> {
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.headers.values().map(text).collect()
    }

    fn headers<'a>(&'a self, texts: &'a [String]) -> Vec<Header<'a>> {
        let own = [("id", self.id.as_str()), ("eventType", self.event_type.as_str())];
        let further = self.headers.keys().map(String::as_str);
        let further = further.zip(texts.iter().map(String::as_str));
        let all = own.into_iter().chain(further);
        all.map(|(key, value)| Header {
            key: key.as_bytes(),
            value: Some(value.as_bytes()),
        })
        .collect()
    }

    /// As [`with_record`](Self::with_record), for a record that has to wait.
    pub(super) async fn enqueue(
        &self,
        producer: &milena_client::producer::Producer,
    ) -> Result<milena_client::producer::Delivery, milena_client::producer::SendError> {
        let texts = self.header_texts();
        let headers = self.headers(&texts);
        producer.enqueue(self.record(&headers)).await
    }
}
