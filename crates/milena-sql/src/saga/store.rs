//! Rows of sagas and of their audit trail.
//!
//! Statements are the same for both databases, but for the locks that only PostgreSQL has.

use sqlx::AssertSqlSafe;

use crate::Connection;

/// Identity of a saga in the table of a participant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SagaKey {
    pub saga_type: String,
    pub participant: String,
    pub saga_id: String,
}

/// A saga as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SagaRow {
    pub key: SagaKey,
    pub status: String,
    /// Raised by every change.
    pub version: i64,
    /// State of the machine, as JSON.
    pub state: String,
    /// Time of the earliest timer, or of a command.
    pub wake_ms: Option<i64>,
    /// A change by hand that was not performed yet, as JSON.
    pub command: Option<String>,
    pub reason: Option<String>,
    pub started_ms: i64,
    pub changed_ms: i64,
}

/// A line of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// Version of the saga after the change.
    pub version: i64,
    pub at_ms: i64,
    /// A user, or the event or timer that caused the change.
    pub actor: String,
    pub action: String,
    pub reason: Option<String>,
}

/// Another transaction has changed the saga since it was read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("saga {} of type {} was changed by another transaction", .0.saga_id, .0.saga_type)]
pub struct Conflict(pub SagaKey);

/// Sagas that [`list`] returns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SagaFilter {
    /// Statuses; none means those that have not ended.
    pub statuses: Vec<&'static str>,
    pub saga_type: Option<String>,
    pub participant: Option<String>,
    /// Only sagas that have not changed since this time.
    pub unchanged_since_ms: Option<i64>,
    pub limit: u32,
}

/// Statuses of sagas that go on, by themselves or by hand. A participant that is not the owner is `waiting` until it has
/// all events of a step.
pub const OPEN: [&str; 4] = ["running", "compensating", "stuck", "waiting"];
/// Statuses of sagas that have ended, and of participants that have nothing to do unless they must compensate.
pub const ENDED: [&str; 6] = ["completed", "compensated", "closed", "done", "failed", "cancelled"];

/// The number of open sagas with a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCount {
    pub saga_type: String,
    pub participant: String,
    pub status: String,
    pub count: i64,
    /// Start of the oldest.
    pub oldest_ms: i64,
}

macro_rules! columns {
    () => {
        "saga_type, participant, saga_id, status, version, state, wake_ms, command, reason, started_ms, changed_ms"
    };
}

type Columns = (
    String,
    String,
    String,
    String,
    i64,
    String,
    Option<i64>,
    Option<String>,
    Option<String>,
    i64,
    i64,
);

impl From<Columns> for SagaRow {
    fn from(columns: Columns) -> Self {
        let (saga_type, participant, saga_id, status, version, state, wake_ms, command, reason, started_ms, changed_ms) =
            columns;
        Self {
            key: SagaKey {
                saga_type,
                participant,
                saga_id,
            },
            status,
            version,
            state,
            wake_ms,
            command,
            reason,
            started_ms,
            changed_ms,
        }
    }
}

/// Runs the same code with the connection of either database.
macro_rules! on {
    ($connection:expr, $inner:ident => $body:expr) => {
        match $connection {
            Connection::Postgres($inner) => $body,
            Connection::Sqlite($inner) => $body,
        }
    };
}

const READ: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM milena_sagas WHERE saga_id = $1 AND saga_type = $2 AND participant = $3"
);
const READ_LOCKED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM milena_sagas WHERE saga_id = $1 AND saga_type = $2 AND participant = $3 FOR UPDATE"
);

/// Reads a saga and locks it until the end of the transaction.
pub async fn lock(connection: Connection<'_>, key: &SagaKey) -> Result<Option<SagaRow>, sqlx::Error> {
    let found: Option<Columns> = match connection {
        Connection::Postgres(connection) => {
            let query = sqlx::query_as(READ_LOCKED).bind(&key.saga_id).bind(&key.saga_type);
            query.bind(&key.participant).fetch_optional(connection).await?
        }
        Connection::Sqlite(connection) => {
            let query = sqlx::query_as(READ).bind(&key.saga_id).bind(&key.saga_type);
            query.bind(&key.participant).fetch_optional(connection).await?
        }
    };
    Ok(found.map(Into::into))
}

const READ_ALL: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM milena_sagas WHERE saga_id = $1 ORDER BY saga_type, participant"
);

/// The sagas with this id, of all types and participants in the database.
pub async fn find(connection: Connection<'_>, saga_id: &str) -> Result<Vec<SagaRow>, sqlx::Error> {
    let found: Vec<Columns> = on!(connection, inner => {
        sqlx::query_as(READ_ALL).bind(saga_id).fetch_all(inner).await?
    });
    Ok(found.into_iter().map(Into::into).collect())
}

const INSERT: &str = "INSERT INTO milena_sagas (saga_type, participant, saga_id, status, version, state, wake_ms, command, \
    reason, started_ms, changed_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING";
const UPDATE: &str = "UPDATE milena_sagas SET status = $4, version = $5, state = $6, wake_ms = $7, command = $8, \
    reason = $9, started_ms = $10, changed_ms = $11 \
    WHERE saga_type = $1 AND participant = $2 AND saga_id = $3 AND version = $5 - 1";

/// Stores a saga whose version is one above the stored one; version 1 is new. A [`Conflict`] means that another
/// transaction was first: roll back and begin again.
pub async fn save(connection: Connection<'_>, row: &SagaRow) -> Result<Result<(), Conflict>, sqlx::Error> {
    let statement = if row.version == 1 { INSERT } else { UPDATE };
    let changed = on!(connection, inner => {
        let query = sqlx::query(statement)
            .bind(&row.key.saga_type)
            .bind(&row.key.participant)
            .bind(&row.key.saga_id)
            .bind(&row.status)
            .bind(row.version)
            .bind(&row.state)
            .bind(row.wake_ms)
            .bind(&row.command)
            .bind(&row.reason)
            .bind(row.started_ms)
            .bind(row.changed_ms);
        query.execute(inner).await?.rows_affected()
    });
    Ok(if changed == 1 {
        Ok(())
    } else {
        Err(Conflict(row.key.clone()))
    })
}

const AUDIT: &str = "INSERT INTO milena_saga_audit (saga_type, participant, saga_id, version, at_ms, actor, action, reason) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

/// Adds a line to the audit trail.
pub async fn audit(connection: Connection<'_>, key: &SagaKey, line: &AuditLine) -> Result<(), sqlx::Error> {
    on!(connection, inner => {
        let query = sqlx::query(AUDIT)
            .bind(&key.saga_type)
            .bind(&key.participant)
            .bind(&key.saga_id)
            .bind(line.version)
            .bind(line.at_ms)
            .bind(&line.actor)
            .bind(&line.action)
            .bind(&line.reason);
        query.execute(inner).await?;
    });
    Ok(())
}

const TRAIL: &str = "SELECT version, at_ms, actor, action, reason FROM milena_saga_audit \
    WHERE saga_id = $1 AND saga_type = $2 AND participant = $3 ORDER BY version";

/// The audit trail of a saga, oldest first.
pub async fn trail(connection: Connection<'_>, key: &SagaKey) -> Result<Vec<AuditLine>, sqlx::Error> {
    let found: Vec<(i64, i64, String, String, Option<String>)> = on!(connection, inner => {
        let query = sqlx::query_as(TRAIL).bind(&key.saga_id).bind(&key.saga_type);
        query.bind(&key.participant).fetch_all(inner).await?
    });
    let lines = found
        .into_iter()
        .map(|(version, at_ms, actor, action, reason)| AuditLine {
            version,
            at_ms,
            actor,
            action,
            reason,
        });
    Ok(lines.collect())
}

const DUE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM milena_sagas WHERE saga_type = $1 AND participant = $2 AND wake_ms IS NOT NULL AND wake_ms <= $3 \
     ORDER BY wake_ms LIMIT 1"
);
const DUE_LOCKED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM milena_sagas WHERE saga_type = $1 AND participant = $2 AND wake_ms IS NOT NULL AND wake_ms <= $3 \
     ORDER BY wake_ms LIMIT 1 FOR UPDATE SKIP LOCKED"
);

/// Locks the saga whose timer or command is due first. Sagas that other transactions have locked are passed over.
pub async fn claim_due(
    connection: Connection<'_>,
    saga_type: &str,
    participant: &str,
    now_ms: i64,
) -> Result<Option<SagaRow>, sqlx::Error> {
    let found: Option<Columns> = match connection {
        Connection::Postgres(connection) => {
            let query = sqlx::query_as(DUE_LOCKED)
                .bind(saga_type)
                .bind(participant)
                .bind(now_ms);
            query.fetch_optional(connection).await?
        }
        Connection::Sqlite(connection) => {
            let query = sqlx::query_as(DUE).bind(saga_type).bind(participant).bind(now_ms);
            query.fetch_optional(connection).await?
        }
    };
    Ok(found.map(Into::into))
}

const NEXT: &str =
    "SELECT min(wake_ms) FROM milena_sagas WHERE saga_type = $1 AND participant = $2 AND wake_ms IS NOT NULL";

/// Time of the earliest timer or command of all sagas of a participant.
pub async fn next_wake(
    connection: Connection<'_>,
    saga_type: &str,
    participant: &str,
) -> Result<Option<i64>, sqlx::Error> {
    on!(connection, inner => {
        sqlx::query_scalar(NEXT).bind(saga_type).bind(participant).fetch_one(inner).await
    })
}

/// Sagas that match a filter: open ones with the oldest first, otherwise those that ended last first.
pub async fn list(connection: Connection<'_>, filter: &SagaFilter) -> Result<Vec<SagaRow>, sqlx::Error> {
    let statement = list_statement(filter);
    let found: Vec<Columns> = on!(connection, inner => {
        let query = sqlx::query_as(AssertSqlSafe(statement))
            .bind(&filter.saga_type)
            .bind(&filter.participant)
            .bind(filter.unchanged_since_ms)
            .bind(i64::from(filter.limit));
        query.fetch_all(inner).await?
    });
    Ok(found.into_iter().map(Into::into).collect())
}

/// One branch for each status, as a constant: then each reads only the index of its status, in order, up to the limit.
fn list_statement(filter: &SagaFilter) -> String {
    let statuses = match filter.statuses.is_empty() {
        true => &OPEN[..],
        false => &filter.statuses,
    };
    let order = match statuses.iter().all(|status| OPEN.contains(status)) {
        true => "started_ms",
        false => "changed_ms DESC",
    };
    let known = OPEN.iter().chain(&ENDED).filter(|known| statuses.contains(known));
    let branches = known.map(|status| {
        format!(
            "SELECT * FROM (SELECT {} FROM milena_sagas WHERE status = '{status}' \
             AND (CAST($1 AS text) IS NULL OR saga_type = $1) AND (CAST($2 AS text) IS NULL OR participant = $2) \
             AND (CAST($3 AS bigint) IS NULL OR changed_ms <= $3) ORDER BY {order} LIMIT $4) AS {status}",
            columns!()
        )
    });
    let branches: Vec<String> = branches.collect();
    format!("{} ORDER BY {order} LIMIT $4", branches.join(" UNION ALL "))
}

const OPEN_COUNTS: &str = "SELECT saga_type, participant, status, count(*), min(started_ms) FROM milena_sagas \
    WHERE status IN ('running', 'compensating', 'stuck', 'waiting') GROUP BY saga_type, participant, status \
    ORDER BY saga_type, participant, status";

/// Counts the sagas that have not ended.
pub async fn count_open(connection: Connection<'_>) -> Result<Vec<OpenCount>, sqlx::Error> {
    let found: Vec<(String, String, String, i64, i64)> = on!(connection, inner => {
        sqlx::query_as(OPEN_COUNTS).fetch_all(inner).await?
    });
    let counts = found
        .into_iter()
        .map(|(saga_type, participant, status, count, oldest_ms)| OpenCount {
            saga_type,
            participant,
            status,
            count,
            oldest_ms,
        });
    Ok(counts.collect())
}

const OLD: &str = "SELECT saga_type, participant, saga_id FROM milena_sagas \
    WHERE status IN ('completed', 'compensated', 'closed', 'done', 'failed', 'cancelled') AND changed_ms < $1 LIMIT $2";
const DELETE_AUDIT: &str = "DELETE FROM milena_saga_audit WHERE saga_type = $1 AND participant = $2 AND saga_id = $3";
const DELETE_EVENTS: &str = "DELETE FROM milena_saga_events WHERE saga_type = $1 AND participant = $2 AND saga_id = $3";
const DELETE: &str = "DELETE FROM milena_sagas WHERE saga_type = $1 AND participant = $2 AND saga_id = $3 \
    AND status IN ('completed', 'compensated', 'closed', 'done', 'failed', 'cancelled') AND changed_ms < $4";

/// Deletes up to `limit` sagas that ended before a time, with their audit trails. Returns their number.
pub async fn delete_ended(connection: Connection<'_>, before_ms: i64, limit: u32) -> Result<u64, sqlx::Error> {
    let mut deleted = 0;
    on!(connection, inner => {
        let old: Vec<(String, String, String)> = sqlx::query_as(OLD)
            .bind(before_ms)
            .bind(i64::from(limit))
            .fetch_all(&mut *inner)
            .await?;
        for (saga_type, participant, saga_id) in old {
            let query = sqlx::query(DELETE).bind(&saga_type).bind(&participant).bind(&saga_id);
            if query.bind(before_ms).execute(&mut *inner).await?.rows_affected() == 1 {
                for statement in [DELETE_AUDIT, DELETE_EVENTS] {
                    let query = sqlx::query(statement).bind(&saga_type).bind(&participant).bind(&saga_id);
                    query.execute(&mut *inner).await?;
                }
                deleted += 1;
            }
        }
    });
    Ok(deleted)
}

/// An event that triggers steps, kept by the owner until the saga ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEvent {
    pub event_type: String,
    pub event_id: String,
    pub record_key: Option<Vec<u8>>,
    pub payload: Option<Vec<u8>>,
    /// As JSON: `{"name": "value"}`.
    pub headers: String,
}

const INSERT_EVENT: &str = "INSERT INTO milena_saga_events (saga_type, participant, saga_id, event_type, event_id, record_key, \
    payload, headers) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";

/// Keeps an event. A second one of its type changes nothing.
pub async fn keep_event(connection: Connection<'_>, key: &SagaKey, event: &StoredEvent) -> Result<(), sqlx::Error> {
    on!(connection, inner => {
        let query = sqlx::query(INSERT_EVENT)
            .bind(&key.saga_type)
            .bind(&key.participant)
            .bind(&key.saga_id)
            .bind(&event.event_type)
            .bind(&event.event_id)
            .bind(&event.record_key)
            .bind(&event.payload)
            .bind(&event.headers);
        query.execute(inner).await?;
    });
    Ok(())
}

const EVENTS: &str = "SELECT event_type, event_id, record_key, payload, headers FROM milena_saga_events \
    WHERE saga_id = $1 AND saga_type = $2 AND participant = $3 ORDER BY event_type";

/// The events that were kept for a saga.
pub async fn events(connection: Connection<'_>, key: &SagaKey) -> Result<Vec<StoredEvent>, sqlx::Error> {
    type Columns = (String, String, Option<Vec<u8>>, Option<Vec<u8>>, String);
    let found: Vec<Columns> = on!(connection, inner => {
        let query = sqlx::query_as(EVENTS).bind(&key.saga_id).bind(&key.saga_type);
        query.bind(&key.participant).fetch_all(inner).await?
    });
    let events = found
        .into_iter()
        .map(|(event_type, event_id, record_key, payload, headers)| StoredEvent {
            event_type,
            event_id,
            record_key,
            payload,
            headers,
        });
    Ok(events.collect())
}

/// Deletes the events that were kept for a saga.
pub async fn drop_events(connection: Connection<'_>, key: &SagaKey) -> Result<(), sqlx::Error> {
    on!(connection, inner => {
        let query = sqlx::query(DELETE_EVENTS).bind(&key.saga_type).bind(&key.participant);
        query.bind(&key.saga_id).execute(inner).await?;
    });
    Ok(())
}
