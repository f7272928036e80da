//! Events that a handler writes to the outbox in its transaction.

use milena_app::handler::{Cx, Fault};
use uuid::Uuid;

use super::{Tx, TxDatabase, fault, key::text_header};
use crate::outbox::{OutboxError, OutboxEvent, write, write_all};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";
const CORRELATION_ID: &str = "correlation_id";
const CAUSATION_ID: &str = "causation_id";

impl<DB: TxDatabase> Tx<DB> {
    /// Writes an event to the outbox. A relay publishes it after the transaction has committed. Returns its id.
    ///
    /// The event gets headers of the handled record, unless it has its own: `traceparent`, `tracestate` and
    /// `correlation_id` are the same, and `causation_id` is the id of the handled event. A record without a correlation
    /// id begins a conversation: its own id is that of the correlation. In a batch no record is the cause, so events get
    /// none of these.
    ///
    /// Write events last: until the end of the transaction other transactions that write events of the same aggregate
    /// wait.
    pub async fn outbox(&mut self, event: OutboxEvent) -> Result<Uuid, Fault> {
        let event = self.caused(event);
        write(self.connection(), &event).await.map_err(outbox_fault)
    }

    /// Writes several events to the outbox, like [`outbox`](Self::outbox).
    pub async fn outbox_all(&mut self, events: impl IntoIterator<Item = OutboxEvent>) -> Result<Vec<Uuid>, Fault> {
        let events: Vec<OutboxEvent> = events.into_iter().map(|event| self.caused(event)).collect();
        write_all(self.connection(), &events).await.map_err(outbox_fault)
    }

    fn caused(&self, event: OutboxEvent) -> OutboxEvent {
        match self.cause() {
            Some(cx) => with_cause(event, cx),
            None => event,
        }
    }
}

/// Adds the headers that lead from an event to the record that caused it.
pub(crate) fn with_cause(event: OutboxEvent, cx: &Cx) -> OutboxEvent {
    let id = || Some(cx.event_id()).filter(|id| !id.contains('\0'));
    let event = event
        .header_or(CORRELATION_ID, || text_header(cx, CORRELATION_ID).or_else(id))
        .header_or(CAUSATION_ID, id);
    match cx.trace() {
        Some(trace) => event
            .header_or(TRACEPARENT, || Some(trace.traceparent().to_owned()))
            .header_or(TRACESTATE, || trace.tracestate().map(str::to_owned)),
        None => event,
    }
}

pub(crate) fn outbox_fault(error: OutboxError) -> Fault {
    match error {
        OutboxError::Invalid(_) | OutboxError::DuplicateId(_) => Fault::poison(error),
        OutboxError::NoTable(_) => Fault::fatal(error),
        OutboxError::Sql(source) => match source.downcast::<sqlx::Error>() {
            Ok(error) => fault(*error),
            Err(source) => Fault::retry(OutboxError::Sql(source)),
        },
        error => Fault::retry(error),
    }
}
