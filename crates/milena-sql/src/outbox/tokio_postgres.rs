//! Writers for transactions of the crate `tokio-postgres`.

use tokio_postgres::{Error, Transaction, types::ToSql};
use uuid::Uuid;

use super::{
    OutboxError, OutboxEvent,
    write::{Columns, INSERT_ALL_POSTGRES, INSERT_ONE_POSTGRES, LOCK_ALL_POSTGRES, has_many_aggregates},
};

/// Writes an event in the transaction. Returns its id. See [`super::write`].
pub async fn write(transaction: &Transaction<'_>, event: &OutboxEvent) -> Result<Uuid, OutboxError> {
    event.validate()?;
    let id = event.id_or_new();
    let payload = event.payload.as_deref();
    let headers = event.headers_json();
    let row: [&(dyn ToSql + Sync); 7] = [
        &id,
        &event.aggregate_type,
        &event.aggregate_id,
        &event.event_type,
        &payload,
        &headers,
        &event.topic,
    ];
    transaction.execute(INSERT_ONE_POSTGRES, &row).await.map_err(failed)?;
    Ok(id)
}

/// Writes events in the transaction with one statement. Returns their ids. See [`super::write_all`].
pub async fn write_all(transaction: &Transaction<'_>, events: &[OutboxEvent]) -> Result<Vec<Uuid>, OutboxError> {
    for event in events {
        event.validate()?;
    }
    let ids: Vec<Uuid> = events.iter().map(OutboxEvent::id_or_new).collect();
    if events.is_empty() {
        return Ok(ids);
    }
    if has_many_aggregates(events) {
        transaction.execute(LOCK_ALL_POSTGRES, &[]).await.map_err(failed)?;
    }
    let columns = Columns::new(events);
    let rows: [&(dyn ToSql + Sync); 7] = [
        &ids,
        &columns.aggregate_types,
        &columns.aggregate_ids,
        &columns.event_types,
        &columns.payloads,
        &columns.headers,
        &columns.topics,
    ];
    transaction.execute(INSERT_ALL_POSTGRES, &rows).await.map_err(failed)?;
    Ok(ids)
}

fn failed(error: Error) -> OutboxError {
    let code = error.code().map(|code| code.code().to_owned());
    OutboxError::from_postgres(code.as_deref(), error.into())
}
