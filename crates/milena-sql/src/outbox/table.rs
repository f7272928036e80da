//! Queries about the table of the outbox, for operators.

use std::time::Duration;

use crate::Database;

/// A row of the outbox without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxRow {
    pub id: String,
    pub sequence: i64,
    pub aggregate_type: String,
    pub aggregate_id: String,
    pub event_type: String,
    /// Topic of the record.
    pub topic: String,
    /// Size of the payload; `None` is a tombstone.
    pub payload_bytes: Option<u64>,
    /// Time since the row was written.
    pub age: Duration,
    pub is_published: bool,
    pub attempts: u32,
    pub last_error: Option<String>,
}

/// State of the rows that [`rows`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowState {
    Unpublished,
    /// Unpublished, after at least one failed attempt.
    Failed,
    Published,
}

/// Slots of the table that one relay publishes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotOwner {
    /// Name of the relay; `None` for slots without a valid lease.
    pub owner: Option<String>,
    pub slots: u32,
    /// Time until the first of its leases ends.
    pub expires_in: Option<Duration>,
}

const COLUMNS_POSTGRES: &str = "SELECT id::text, sequence, aggregatetype, aggregateid, type,
    coalesce(topic, aggregatetype || '.events'), octet_length(payload)::bigint,
    (extract(epoch FROM clock_timestamp() - created_at) * 1000)::bigint,
    published_at IS NOT NULL, attempts::bigint, last_error FROM milena_outbox";
const COLUMNS_SQLITE: &str = "SELECT id, sequence, aggregatetype, aggregateid, type,
    coalesce(topic, aggregatetype || '.events'), length(CAST(payload AS blob)),
    CAST((julianday('now') - 2440587.5) * 86400000 AS integer) - created_at,
    published_at IS NOT NULL, attempts, last_error FROM milena_outbox";

type Row = (
    String,
    i64,
    String,
    String,
    String,
    String,
    Option<i64>,
    i64,
    bool,
    i64,
    Option<String>,
);

/// Rows of the outbox: unpublished ones from the oldest, published ones from the newest, at most `limit`.
pub async fn rows(database: &Database, state: RowState, limit: u32) -> Result<Vec<OutboxRow>, sqlx::Error> {
    let condition = match state {
        RowState::Unpublished => "published_at IS NULL ORDER BY sequence",
        RowState::Failed => "published_at IS NULL AND attempts > 0 ORDER BY sequence",
        RowState::Published => "published_at IS NOT NULL ORDER BY published_at DESC, sequence DESC",
    };
    let columns = match database {
        Database::Postgres(_) => COLUMNS_POSTGRES,
        Database::Sqlite(_) => COLUMNS_SQLITE,
    };
    let statement = sqlx::AssertSqlSafe(format!("{columns} WHERE {condition} LIMIT $1"));
    let limit = i64::from(limit);
    let rows: Vec<Row> = match database {
        Database::Postgres(pool) => sqlx::query_as(statement).bind(limit).fetch_all(pool).await?,
        Database::Sqlite(pool) => sqlx::query_as(statement).bind(limit).fetch_all(pool).await?,
    };
    Ok(rows.into_iter().map(row).collect())
}

fn row(row: Row) -> OutboxRow {
    let (id, sequence, aggregate_type, aggregate_id, event_type, topic, bytes, age_ms, is_published, attempts, error) =
        row;
    OutboxRow {
        id,
        sequence,
        aggregate_type,
        aggregate_id,
        event_type,
        topic,
        payload_bytes: bytes.map(not_negative),
        age: Duration::from_millis(not_negative(age_ms)),
        is_published,
        attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
        last_error: error,
    }
}

fn not_negative(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

const OWNERS_POSTGRES: &str = "SELECT owner, count(*), min(left_ms) FROM (
    SELECT CASE WHEN expires_at > clock_timestamp() THEN owner END AS owner,
        (extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint AS left_ms
    FROM milena_outbox_slots) AS lease GROUP BY owner ORDER BY owner NULLS LAST";
const OWNERS_SQLITE: &str = "SELECT owner, count(*), min(left_ms) FROM (
    SELECT CASE WHEN expires_at > CAST((julianday('now') - 2440587.5) * 86400000 AS integer) THEN owner END AS owner,
        expires_at - CAST((julianday('now') - 2440587.5) * 86400000 AS integer) AS left_ms
    FROM milena_outbox_slots) AS lease GROUP BY owner ORDER BY owner NULLS LAST";

/// Relays with a valid lease and the number of their slots, then the slots of no relay.
pub async fn slot_owners(database: &Database) -> Result<Vec<SlotOwner>, sqlx::Error> {
    let owners: Vec<(Option<String>, i64, Option<i64>)> = match database {
        Database::Postgres(pool) => sqlx::query_as(OWNERS_POSTGRES).fetch_all(pool).await?,
        Database::Sqlite(pool) => sqlx::query_as(OWNERS_SQLITE).fetch_all(pool).await?,
    };
    let owners = owners.into_iter().map(|(owner, slots, left_ms)| SlotOwner {
        expires_in: left_ms
            .filter(|_| owner.is_some())
            .map(|ms| Duration::from_millis(not_negative(ms))),
        owner,
        slots: u32::try_from(slots).unwrap_or(u32::MAX),
    });
    Ok(owners.collect())
}
