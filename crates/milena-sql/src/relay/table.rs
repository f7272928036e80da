//! Statements about the outbox for operators: backlog, failed rows, clean-up.

use std::time::Duration;

use crate::Database;

/// Unpublished rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    pub rows: u64,
    /// Age of the oldest row by the database's clock.
    pub oldest: Option<Duration>,
    /// Rows with at least one failed attempt.
    pub failed: u64,
}

/// An unpublished row whose last attempt failed. Later rows of its aggregate wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FailedEvent {
    pub id: String,
    pub sequence: i64,
    pub aggregate_type: String,
    pub aggregate_id: String,
    pub attempts: u32,
    pub last_error: String,
}

/// The largest number of rows that one statement deletes, to keep locks and the write-ahead log small.
const CLEAN_MAX: u64 = 5_000;

const BACKLOG_POSTGRES: &str = "SELECT count(*), count(*) FILTER (WHERE attempts > 0),
    (extract(epoch FROM clock_timestamp() - min(created_at)) * 1000)::bigint
    FROM milena_outbox WHERE published_at IS NULL";
const BACKLOG_SQLITE: &str = "SELECT count(*), count(*) FILTER (WHERE attempts > 0),
    CAST((julianday('now') - 2440587.5) * 86400000 AS integer) - min(created_at)
    FROM milena_outbox WHERE published_at IS NULL";

/// Counts the unpublished rows.
pub async fn backlog(database: &Database) -> Result<Backlog, sqlx::Error> {
    let (rows, failed, oldest_ms): (i64, i64, Option<i64>) = match database {
        Database::Postgres(pool) => sqlx::query_as(BACKLOG_POSTGRES).fetch_one(pool).await?,
        Database::Sqlite(pool) => sqlx::query_as(BACKLOG_SQLITE).fetch_one(pool).await?,
    };
    let count = |rows: i64| u64::try_from(rows).unwrap_or(0);
    Ok(Backlog {
        rows: count(rows),
        oldest: oldest_ms.map(|oldest_ms| Duration::from_millis(count(oldest_ms))),
        failed: count(failed),
    })
}

const FAILED_POSTGRES: &str = "SELECT id::text, sequence, aggregatetype, aggregateid, attempts::bigint, last_error
    FROM milena_outbox WHERE published_at IS NULL AND attempts > 0 ORDER BY sequence LIMIT $1";
const FAILED_SQLITE: &str = "SELECT id, sequence, aggregatetype, aggregateid, attempts, last_error
    FROM milena_outbox WHERE published_at IS NULL AND attempts > 0 ORDER BY sequence LIMIT $1";

type FailedRow = (String, i64, String, String, i64, Option<String>);

/// Unpublished rows whose last attempt failed, oldest first, at most `limit`.
pub async fn failed_events(database: &Database, limit: u32) -> Result<Vec<FailedEvent>, sqlx::Error> {
    let limit = i64::from(limit);
    let rows: Vec<FailedRow> = match database {
        Database::Postgres(pool) => sqlx::query_as(FAILED_POSTGRES).bind(limit).fetch_all(pool).await?,
        Database::Sqlite(pool) => sqlx::query_as(FAILED_SQLITE).bind(limit).fetch_all(pool).await?,
    };
    let events = rows.into_iter().map(|row| {
        let (id, sequence, aggregate_type, aggregate_id, attempts, last_error) = row;
        FailedEvent {
            id,
            sequence,
            aggregate_type,
            aggregate_id,
            attempts: u32::try_from(attempts).unwrap_or(u32::MAX),
            last_error: last_error.unwrap_or_default(),
        }
    });
    Ok(events.collect())
}

const RETRY: &str = "UPDATE milena_outbox SET attempts = 0, last_error = NULL
    WHERE published_at IS NULL AND attempts > 0";

/// Lets running relays try failed rows again within about a second, without waiting for their backoff. Returns the
/// number of rows.
pub async fn retry_failed(database: &Database) -> Result<u64, sqlx::Error> {
    Ok(match database {
        Database::Postgres(pool) => sqlx::query(RETRY).execute(pool).await?.rows_affected(),
        Database::Sqlite(pool) => sqlx::query(RETRY).execute(pool).await?.rows_affected(),
    })
}

const CLEAN_POSTGRES: &str = "DELETE FROM milena_outbox WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM milena_outbox WHERE published_at < clock_timestamp() - $1 * interval '1 millisecond' LIMIT $2))";
const CLEAN_SQLITE: &str = "DELETE FROM milena_outbox WHERE sequence IN (
    SELECT sequence FROM milena_outbox
    WHERE published_at < CAST((julianday('now') - 2440587.5) * 86400000 AS integer) - $1 LIMIT $2)";

/// Deletes rows that were published longer ago than `age`. Returns their number.
pub async fn clean_published(database: &Database, age: Duration) -> Result<u64, sqlx::Error> {
    let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let limit = i64::try_from(CLEAN_MAX).unwrap_or(i64::MAX);
    let mut deleted = 0;
    loop {
        let rows = match database {
            Database::Postgres(pool) => {
                let clean = sqlx::query(CLEAN_POSTGRES).bind(age_ms).bind(limit);
                clean.execute(pool).await?.rows_affected()
            }
            Database::Sqlite(pool) => {
                let clean = sqlx::query(CLEAN_SQLITE).bind(age_ms).bind(limit);
                clean.execute(pool).await?.rows_affected()
            }
        };
        deleted += rows;
        if rows < CLEAN_MAX {
            return Ok(deleted);
        }
    }
}
