//! Writers for connections of sqlx.

use std::collections::BTreeSet;

use sqlx::{Connection as _, PgConnection, SqliteConnection};
use uuid::Uuid;

use super::{OutboxError, OutboxEvent};
use crate::{Connection, Dialect};

/// Statement that writes an event in PostgreSQL, for programs without this crate.
///
/// Parameters: aggregate type, aggregate id, event type, payload (`bytea`). The columns `id` (`uuid`), `headers`
/// (`jsonb`, an object of strings), and `topic` (`text`) may be given too.
pub const INSERT_POSTGRES: &str =
    "INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload) VALUES ($1, $2, $3, $4)";
/// Statement that writes an event in SQLite, for programs without this crate. Parameters as in [`INSERT_POSTGRES`]: the
/// payload is a `blob`, an id is a text in lower case, and headers are a text.
pub const INSERT_SQLITE: &str =
    "INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload) VALUES (?1, ?2, ?3, ?4)";

pub(super) const INSERT_ONE_POSTGRES: &str = "
    INSERT INTO milena_outbox (id, aggregatetype, aggregateid, type, payload, headers, topic)
    VALUES ($1, $2, $3, $4, $5, $6::text::jsonb, $7)";
/// Rows in the order of the locks that the table's trigger takes: two statements of this kind cannot deadlock. Within an
/// aggregate they keep their order.
pub(super) const INSERT_ALL_POSTGRES: &str = "
    INSERT INTO milena_outbox (id, aggregatetype, aggregateid, type, payload, headers, topic)
    SELECT id, aggregatetype, aggregateid, type, payload, headers::jsonb, topic
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::text[], $7::text[])
        WITH ORDINALITY AS event (id, aggregatetype, aggregateid, type, payload, headers, topic, number)
    ORDER BY milena_outbox_aggregate(aggregatetype, aggregateid), number";
/// Locks all aggregates at once. The trigger does so too, but then it already has locks that others may wait for.
pub(super) const LOCK_ALL_POSTGRES: &str = "SELECT milena_outbox_lock()";
/// Number of aggregates of a transaction above which all are locked, as in the trigger.
const LOCKS_MAX: usize = 256;
const INSERT_ONE_SQLITE: &str = "
    INSERT INTO milena_outbox (id, aggregatetype, aggregateid, type, payload, headers, topic)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";

/// Writes an event in the transaction of `connection`. Returns its id, which consumers see in the header `id`.
///
/// ```no_run
/// # use milena_sql::{Database, outbox::{self, OutboxEvent}};
/// # async fn example(database: Database) -> Result<(), Box<dyn std::error::Error>> {
/// let mut transaction = database.begin().await?;
/// // … INSERT INTO orders …
/// let event = OutboxEvent::new("orders", "order-7", "OrderPlaced").payload("{}");
/// outbox::write(transaction.connection(), &event).await?;
/// transaction.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn write(connection: impl Into<Connection<'_>>, event: &OutboxEvent) -> Result<Uuid, OutboxError> {
    event.validate()?;
    let id = event.id_or_new();
    match connection.into() {
        Connection::Postgres(connection) => insert_postgres(connection, id, event).await,
        Connection::Sqlite(connection) => insert_sqlite(connection, id, event).await,
    }?;
    Ok(id)
}

/// Writes events in the transaction of `connection`, in one statement in PostgreSQL. Either all are written or none.
/// Returns their ids.
pub async fn write_all(
    connection: impl Into<Connection<'_>>,
    events: &[OutboxEvent],
) -> Result<Vec<Uuid>, OutboxError> {
    for event in events {
        event.validate()?;
    }
    let ids: Vec<Uuid> = events.iter().map(OutboxEvent::id_or_new).collect();
    match connection.into() {
        Connection::Postgres(connection) => insert_all_postgres(connection, &ids, events).await,
        Connection::Sqlite(connection) => insert_all_sqlite(connection, &ids, events).await,
    }?;
    Ok(ids)
}

async fn insert_postgres(connection: &mut PgConnection, id: Uuid, event: &OutboxEvent) -> Result<(), OutboxError> {
    let insert = sqlx::query(INSERT_ONE_POSTGRES)
        .bind(id)
        .bind(&event.aggregate_type)
        .bind(&event.aggregate_id)
        .bind(&event.event_type)
        .bind(event.payload.as_deref())
        .bind(event.headers_json())
        .bind(&event.topic);
    let result = insert.execute(connection).await;
    result.map_err(|error| OutboxError::from_sqlx(Dialect::Postgres, error))?;
    Ok(())
}

async fn insert_all_postgres(
    connection: &mut PgConnection,
    ids: &[Uuid],
    events: &[OutboxEvent],
) -> Result<(), OutboxError> {
    if events.is_empty() {
        return Ok(());
    }
    let failed = |error| OutboxError::from_sqlx(Dialect::Postgres, error);
    if has_many_aggregates(events) {
        let lock = sqlx::query(LOCK_ALL_POSTGRES).execute(&mut *connection);
        lock.await.map_err(failed)?;
    }
    let columns = Columns::new(events);
    let insert = sqlx::query(INSERT_ALL_POSTGRES)
        .bind(ids)
        .bind(columns.aggregate_types)
        .bind(columns.aggregate_ids)
        .bind(columns.event_types)
        .bind(columns.payloads)
        .bind(columns.headers)
        .bind(columns.topics);
    insert.execute(connection).await.map_err(failed)?;
    Ok(())
}

async fn insert_sqlite(connection: &mut SqliteConnection, id: Uuid, event: &OutboxEvent) -> Result<(), OutboxError> {
    let insert = sqlx::query(INSERT_ONE_SQLITE)
        .bind(id.to_string())
        .bind(&event.aggregate_type)
        .bind(&event.aggregate_id)
        .bind(&event.event_type)
        .bind(event.payload.as_deref())
        .bind(event.headers_json())
        .bind(&event.topic);
    let result = insert.execute(connection).await;
    result.map_err(|error| OutboxError::from_sqlx(Dialect::Sqlite, error))?;
    Ok(())
}

/// A statement for each event: SQLite is in the process, so one for all would save little. A savepoint makes them one.
async fn insert_all_sqlite(
    connection: &mut SqliteConnection,
    ids: &[Uuid],
    events: &[OutboxEvent],
) -> Result<(), OutboxError> {
    let failed = |error| OutboxError::from_sqlx(Dialect::Sqlite, error);
    let mut savepoint = connection.begin().await.map_err(failed)?;
    for (id, event) in ids.iter().zip(events) {
        insert_sqlite(&mut savepoint, *id, event).await?;
    }
    savepoint.commit().await.map_err(failed)
}

/// Whether the events are of more aggregates than should be locked one by one.
pub(super) fn has_many_aggregates(events: &[OutboxEvent]) -> bool {
    let names = events.iter().map(|event| (&event.aggregate_type, &event.aggregate_id));
    events.len() > LOCKS_MAX && names.collect::<BTreeSet<_>>().len() > LOCKS_MAX
}

/// Events by column, as arrays of PostgreSQL are.
pub(super) struct Columns<'a> {
    pub(super) aggregate_types: Vec<&'a str>,
    pub(super) aggregate_ids: Vec<&'a str>,
    pub(super) event_types: Vec<&'a str>,
    pub(super) payloads: Vec<Option<&'a [u8]>>,
    pub(super) headers: Vec<String>,
    pub(super) topics: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(events: &'a [OutboxEvent]) -> Self {
        Self {
            aggregate_types: events.iter().map(|event| event.aggregate_type.as_str()).collect(),
            aggregate_ids: events.iter().map(|event| event.aggregate_id.as_str()).collect(),
            event_types: events.iter().map(|event| event.event_type.as_str()).collect(),
            payloads: events.iter().map(|event| event.payload.as_deref()).collect(),
            headers: events.iter().map(OutboxEvent::headers_json).collect(),
            topics: events.iter().map(|event| event.topic.as_deref()).collect(),
        }
    }
}
