//! Events of sagas: what records carry, and what is written to the outbox.

use std::collections::BTreeMap;

use bytes::Bytes;
use milena_app::{
    handler::{Cx, Fault},
    saga::{Definition, Locator, STEP_HEADER, Saga, TYPE_HEADER},
};
use serde_json::Value;

use super::{Participant, store::StoredEvent};
use crate::{once::with_cause, outbox::OutboxEvent};

/// Header with the reason of a failure.
pub(crate) const SAGA_REASON: &str = "saga_reason";
/// Headers that the outbox sets.
const SET_BY_OUTBOX: [&str; 2] = ["id", "eventType"];

/// An event of a saga, read from a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SagaEvent {
    pub(crate) event_type: String,
    pub(crate) event_id: String,
    pub(crate) saga_step: Option<String>,
    pub(crate) reason: Option<String>,
}

impl SagaEvent {
    /// Reads an event; `None` if the record has no event type.
    pub(crate) fn read(saga: &Saga, cx: &Cx) -> Option<Self> {
        Some(Self {
            event_type: saga.event_type_of(cx.record().as_ref()).ok()?,
            event_id: cx.event_id(),
            saga_step: header(cx, STEP_HEADER),
            reason: header(cx, SAGA_REASON),
        })
    }
}

/// Text of a header.
pub(crate) fn header(cx: &Cx, name: &str) -> Option<String> {
    let mut headers = cx.record().headers();
    let found = headers.find(|header| header.key == name.as_bytes())?;
    let text = std::str::from_utf8(found.value?).ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// An event of a participant, in its topic, with the saga's id as key.
pub(crate) struct NewEvent<'a> {
    pub(crate) participant: &'a Participant,
    pub(crate) saga_id: &'a str,
    pub(crate) event_type: &'a str,
    /// The record that causes it.
    pub(crate) cause: Option<&'a Cx>,
}

impl NewEvent<'_> {
    pub(crate) fn with_payload(&self, payload: Bytes) -> Result<OutboxEvent, Fault> {
        let saga = &self.participant.saga;
        let topic = saga.definition().topic(&self.participant.name).unwrap_or_default();
        let places = [(saga.id(), self.saga_id), (saga.event_type(), self.event_type)];
        let payload = self.payload(payload, &places)?;
        let mut event = addressed(topic, self.saga_id, self.event_type).payload(payload);
        for (place, value) in places {
            match place {
                // The relay writes it.
                Locator::Header(name) if name == TYPE_HEADER => {}
                Locator::Header(name) => event = event.header(name, value),
                _ => {}
            }
        }
        Ok(match self.cause {
            Some(cx) => with_cause(event, cx),
            None => event,
        })
    }

    /// Adds the saga's id and the type to a JSON payload, where readers expect them in it.
    fn payload(&self, payload: Bytes, places: &[(&Locator, &str)]) -> Result<Bytes, Fault> {
        let fields = places.iter().filter_map(|(place, value)| match place {
            Locator::Json(field) => Some((field, *value)),
            _ => None,
        });
        let fields: Vec<(&String, &str)> = fields.collect();
        if fields.is_empty() {
            return Ok(payload);
        }
        let not_an_object = || {
            let text = format!(
                "the payload of {} must be a JSON object, because the declaration of the saga finds values in it",
                self.event_type
            );
            Fault::fatal(text)
        };
        let mut json: Value = serde_json::from_slice(&payload).map_err(|_| not_an_object())?;
        for (field, value) in fields {
            let mut place = &mut json;
            for name in field.split('.') {
                let object = place.as_object_mut().ok_or_else(not_an_object)?;
                place = object
                    .entry(name)
                    .or_insert_with(|| Value::Object(serde_json::Map::new()));
            }
            if place.as_object().is_some_and(serde_json::Map::is_empty) {
                *place = Value::String(value.to_owned());
            }
        }
        Ok(json.to_string().into())
    }
}

/// An event in a topic. The aggregate of `orders.events` is `orders`, as for events that the application writes itself,
/// so that both are in one order.
fn addressed(topic: &str, saga_id: &str, event_type: &str) -> OutboxEvent {
    match topic.strip_suffix(".events").filter(|name| !name.is_empty()) {
        Some(aggregate) => OutboxEvent::new(aggregate, saga_id, event_type),
        None => OutboxEvent::new(topic, saga_id, event_type).topic(topic),
    }
}

/// The form in which the owner keeps an event.
pub(crate) fn stored(event: &SagaEvent, cx: &Cx) -> StoredEvent {
    let record = cx.record();
    let mut headers = BTreeMap::new();
    for header in record.headers() {
        let value = header.value.and_then(|value| std::str::from_utf8(value).ok());
        if let (Ok(name), Some(value)) = (std::str::from_utf8(header.key), value)
            && !SET_BY_OUTBOX.contains(&name)
        {
            headers.insert(name, value);
        }
    }
    StoredEvent {
        event_type: event.event_type.clone(),
        event_id: event.event_id.clone(),
        record_key: record.key().map(<[u8]>::to_vec),
        payload: record.value().map(<[u8]>::to_vec),
        headers: serde_json::json!(headers).to_string(),
    }
}

/// A kept event once more, with the id that it had. The row has an id of its own, and the header `event_id` or `ce_id`
/// comes before it.
pub(crate) fn redelivery(definition: &Definition, saga_id: &str, event: &StoredEvent) -> Option<OutboxEvent> {
    let topic = definition.topic(definition.emitter(&event.event_type)?)?;
    let key = event
        .record_key
        .as_deref()
        .and_then(|key| std::str::from_utf8(key).ok());
    let key = key.filter(|key| !key.is_empty()).unwrap_or(saga_id);
    let mut again = addressed(topic, key, &event.event_type);
    if let Some(payload) = &event.payload {
        again = again.payload(payload.clone());
    }
    let headers: BTreeMap<String, String> = serde_json::from_str(&event.headers).unwrap_or_default();
    if !headers.contains_key("event_id") && !headers.contains_key("ce_id") {
        again = again.header("event_id", &event.event_id);
    }
    for (name, value) in headers {
        again = again.header(name, value);
    }
    Some(again)
}
