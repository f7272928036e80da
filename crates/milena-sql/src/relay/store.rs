//! The statements of a relay, for either database.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use milena_machines::outbox::{GrantedLeases, LeaseCall, ReadCall, Row, SlotLease, claim_max};
use sqlx::{PgConnection, SqliteConnection};

use super::event::{Columns, StoredEvent, row};
use crate::{Connection, Database};

/// Rows of a read, and whether the bound of bytes cut it.
pub(super) type ReadRows = (Vec<Row<Arc<StoredEvent>>>, bool);

/// The outbox tables of a database, as one relay uses them.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) database: Database,
    pub(super) owner: String,
    pub(super) lease_ms: i64,
    pub(super) slots: u16,
    /// End of the leases that were granted last, by the database's clock. A release of leases that end later comes too
    /// late: they were renewed after it.
    expiry: AtomicI64,
}

/// The statements about leases. `$1` is the owner.
struct LeaseStatements {
    /// `$2` slots, `$3` end of the lease.
    release: &'static str,
    release_all: &'static str,
    leave: &'static str,
    /// `$2` milliseconds.
    announce: &'static str,
    forget: &'static str,
    relays: &'static str,
    renew: &'static str,
    /// `$3` number of slots.
    claim: &'static str,
    expiry: &'static str,
}

const POSTGRES: LeaseStatements = LeaseStatements {
    release: "UPDATE milena_outbox_slots SET owner = NULL, expires_at = NULL
        WHERE owner = $1 AND slot = ANY($2) AND (extract(epoch FROM expires_at) * 1000000)::bigint <= $3",
    release_all: "UPDATE milena_outbox_slots SET owner = NULL, expires_at = NULL WHERE owner = $1",
    leave: "DELETE FROM milena_outbox_relays WHERE owner = $1",
    announce: "INSERT INTO milena_outbox_relays (owner, expires_at)
        VALUES ($1, now() + $2 * interval '1 millisecond')
        ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at",
    forget: "DELETE FROM milena_outbox_relays WHERE owner IN (SELECT owner FROM milena_outbox_relays
        WHERE expires_at < now() AND owner <> $1 FOR UPDATE SKIP LOCKED)",
    relays: "SELECT count(*) FROM milena_outbox_relays WHERE expires_at >= now()",
    renew: "UPDATE milena_outbox_slots SET expires_at = now() + $2 * interval '1 millisecond' WHERE owner = $1
        RETURNING slot::bigint, epoch",
    claim: "UPDATE milena_outbox_slots SET owner = $1, epoch = epoch + 1,
            expires_at = now() + $2 * interval '1 millisecond'
        WHERE slot IN (SELECT slot FROM milena_outbox_slots WHERE owner IS NULL OR expires_at < now()
            ORDER BY slot LIMIT $3 FOR UPDATE SKIP LOCKED)
        RETURNING slot::bigint, epoch",
    expiry: "SELECT coalesce(max((extract(epoch FROM expires_at) * 1000000)::bigint), 0)
        FROM milena_outbox_slots WHERE owner = $1",
};

const SQLITE: LeaseStatements = LeaseStatements {
    release: "UPDATE milena_outbox_slots SET owner = NULL, expires_at = NULL
        WHERE owner = $1 AND slot IN (SELECT value FROM json_each($2)) AND expires_at <= $3",
    release_all: "UPDATE milena_outbox_slots SET owner = NULL, expires_at = NULL WHERE owner = $1",
    leave: "DELETE FROM milena_outbox_relays WHERE owner = $1",
    announce: "INSERT INTO milena_outbox_relays (owner, expires_at)
        VALUES ($1, CAST((julianday('now') - 2440587.5) * 86400000 AS integer) + $2)
        ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at",
    forget: "DELETE FROM milena_outbox_relays
        WHERE expires_at < CAST((julianday('now') - 2440587.5) * 86400000 AS integer) AND owner <> $1",
    relays: "SELECT count(*) FROM milena_outbox_relays",
    renew: "UPDATE milena_outbox_slots
        SET expires_at = CAST((julianday('now') - 2440587.5) * 86400000 AS integer) + $2 WHERE owner = $1
        RETURNING slot, epoch",
    claim: "UPDATE milena_outbox_slots SET owner = $1, epoch = epoch + 1,
            expires_at = CAST((julianday('now') - 2440587.5) * 86400000 AS integer) + $2
        WHERE slot IN (SELECT slot FROM milena_outbox_slots WHERE owner IS NULL
            OR expires_at < CAST((julianday('now') - 2440587.5) * 86400000 AS integer) ORDER BY slot LIMIT $3)
        RETURNING slot, epoch",
    expiry: "SELECT coalesce(max(expires_at), 0) FROM milena_outbox_slots WHERE owner = $1",
};

/// The bodies are the same for both types of connections.
macro_rules! exchange_leases {
    ($name:ident, $connection:ty, $statements:expr, $slots:expr) => {
        async fn $name(
            &self,
            connection: &mut $connection,
            call: &LeaseCall,
        ) -> Result<(GrantedLeases, i64), sqlx::Error> {
            let (sql, owner, lease_ms) = ($statements, &self.owner, self.lease_ms);
            if call.is_last {
                sqlx::query(sql.release_all)
                    .bind(owner)
                    .execute(&mut *connection)
                    .await?;
                sqlx::query(sql.leave)
                    .bind(owner)
                    .execute(&mut *connection)
                    .await?;
                return Ok((
                    GrantedLeases {
                        held: vec![],
                        relays: 0,
                    },
                    0,
                ));
            }
            if !call.release.is_empty() {
                let release = sqlx::query(sql.release).bind(owner).bind($slots(&call.release));
                let release = release.bind(self.expiry.load(Ordering::Relaxed));
                release.execute(&mut *connection).await?;
            }
            let announce = sqlx::query(sql.announce).bind(owner).bind(lease_ms);
            announce.execute(&mut *connection).await?;
            sqlx::query(sql.forget)
                .bind(owner)
                .execute(&mut *connection)
                .await?;
            let relays: i64 = sqlx::query_scalar(sql.relays).fetch_one(&mut *connection).await?;
            let renew = sqlx::query_as(sql.renew).bind(owner).bind(lease_ms);
            let mut held: Vec<(i64, i64)> = renew.fetch_all(&mut *connection).await?;
            let relays = u32::try_from(relays).unwrap_or(u32::MAX);
            let claims = claim_max(self.slots, relays, held.len());
            if call.may_claim && claims > 0 {
                let claims = i64::try_from(claims).unwrap_or(i64::MAX);
                let claim = sqlx::query_as(sql.claim).bind(owner).bind(lease_ms).bind(claims);
                let claimed: Vec<(i64, i64)> = claim.fetch_all(&mut *connection).await?;
                held.extend(claimed);
            }
            let expiry: i64 = sqlx::query_scalar(sql.expiry)
                .bind(owner)
                .fetch_one(&mut *connection)
                .await?;
            let lease = |(slot, epoch): (i64, i64)| {
                Some(SlotLease {
                    slot: u16::try_from(slot).ok()?,
                    epoch,
                })
            };
            let held = held.into_iter().filter_map(lease).collect();
            Ok((GrantedLeases { held, relays }, expiry))
        }
    };
}

impl Store {
    pub(super) async fn open(database: Database, owner: String, lease_ms: i64) -> Result<Self, sqlx::Error> {
        // Fails also if only the table of relays is missing.
        const SLOTS: &str = "SELECT count(*) FROM milena_outbox_slots
            WHERE (SELECT count(*) FROM milena_outbox_relays) >= 0";
        let slots: i64 = match &database {
            Database::Postgres(pool) => sqlx::query_scalar(SLOTS).fetch_one(pool).await?,
            Database::Sqlite(pool) => sqlx::query_scalar(SLOTS).fetch_one(pool).await?,
        };
        Ok(Self {
            database,
            owner,
            lease_ms,
            slots: u16::try_from(slots).unwrap_or(0),
            expiry: AtomicI64::new(0),
        })
    }

    exchange_leases!(leases_postgres, PgConnection, POSTGRES, |slots: &[u16]| numbers(slots));
    exchange_leases!(leases_sqlite, SqliteConnection, SQLITE, |slots: &[u16]| json(slots));

    /// Renews, claims and releases leases in one transaction.
    pub(super) async fn leases(&self, call: &LeaseCall) -> Result<GrantedLeases, sqlx::Error> {
        let mut transaction = self.database.begin().await?;
        let (granted, expiry) = match transaction.connection() {
            Connection::Postgres(connection) => self.leases_postgres(connection, call).await?,
            Connection::Sqlite(connection) => self.leases_sqlite(connection, call).await?,
        };
        transaction.commit().await?;
        self.expiry.store(expiry, Ordering::Relaxed);
        Ok(granted)
    }

    pub(super) async fn read(&self, call: &ReadCall) -> Result<ReadRows, sqlx::Error> {
        let limit = i64::try_from(call.rows_max).unwrap_or(i64::MAX);
        let bytes_max = i64::try_from(call.bytes_max).unwrap_or(i64::MAX);
        let has_stops = !call.stopped_aggregates.is_empty() || !call.stopped_topics.is_empty();
        let kinds = call
            .stopped_aggregates
            .iter()
            .map(|aggregate| aggregate.kind.to_string());
        let ids = call.stopped_aggregates.iter().map(|aggregate| aggregate.id.to_string());
        let (kinds, ids): (Vec<String>, Vec<String>) = (kinds.collect(), ids.collect());
        let columns: Vec<Columns> = match &self.database {
            Database::Postgres(pool) => {
                let sql = if has_stops {
                    READ_POSTGRES_STOPPED
                } else {
                    READ_POSTGRES
                };
                // Not prepared, so that the numbers are constants, which PostgreSQL hashes.
                let read = sqlx::query_as(sql).persistent(false);
                let read = read
                    .bind(numbers(&call.slots))
                    .bind(&call.held)
                    .bind(limit)
                    .bind(bytes_max);
                let read = if has_stops {
                    read.bind(kinds).bind(ids).bind(&call.stopped_topics)
                } else {
                    read
                };
                read.fetch_all(pool).await?
            }
            Database::Sqlite(pool) => {
                let pairs: Vec<_> = kinds.iter().zip(&ids).collect();
                let read = sqlx::query_as(READ_SQLITE)
                    .bind(json(&call.held))
                    .bind(limit)
                    .bind(bytes_max);
                let read = read.bind(json(&pairs)).bind(json(&call.stopped_topics));
                read.fetch_all(pool).await?
            }
        };
        let whole = columns.first().map_or(0, |columns| columns.9);
        let is_cut = i64::try_from(columns.len()).is_ok_and(|count| count < whole);
        Ok((columns.into_iter().map(row).collect(), is_cut))
    }

    pub(super) async fn mark(&self, sequences: &[i64]) -> Result<(), sqlx::Error> {
        match &self.database {
            Database::Postgres(pool) => {
                const MARK: &str = "UPDATE milena_outbox SET published_at = clock_timestamp()
                    WHERE sequence = ANY($1) AND published_at IS NULL";
                sqlx::query(MARK).bind(sequences).execute(pool).await?;
            }
            Database::Sqlite(pool) => {
                const MARK: &str = "UPDATE milena_outbox
                    SET published_at = CAST((julianday('now') - 2440587.5) * 86400000 AS integer)
                    WHERE sequence IN (SELECT value FROM json_each($1)) AND published_at IS NULL";
                sqlx::query(MARK).bind(json(sequences)).execute(pool).await?;
            }
        }
        Ok(())
    }

    /// Writes a failure to the row.
    pub(super) async fn note(&self, sequence: i64, reason: &str) -> Result<(), sqlx::Error> {
        const NOTE: &str = "UPDATE milena_outbox SET attempts = attempts + 1, last_error = $2
            WHERE sequence = $1 AND published_at IS NULL";
        match &self.database {
            Database::Postgres(pool) => {
                let note = sqlx::query(NOTE).bind(sequence).bind(reason);
                note.execute(pool).await.map(drop)
            }
            Database::Sqlite(pool) => {
                let note = sqlx::query(NOTE).bind(sequence).bind(reason);
                note.execute(pool).await.map(drop)
            }
        }
    }

    /// Returns those of the failed rows whose failure an operator has reset, and those that are gone.
    pub(super) async fn recheck(&self, sequences: &[i64]) -> Result<Vec<i64>, sqlx::Error> {
        let failed: Vec<i64> = match &self.database {
            Database::Postgres(pool) => {
                const FAILED: &str = "SELECT sequence FROM milena_outbox
                    WHERE sequence = ANY($1) AND published_at IS NULL AND attempts > 0";
                sqlx::query_scalar(FAILED).bind(sequences).fetch_all(pool).await?
            }
            Database::Sqlite(pool) => {
                const FAILED: &str = "SELECT sequence FROM milena_outbox
                    WHERE sequence IN (SELECT value FROM json_each($1)) AND published_at IS NULL AND attempts > 0";
                sqlx::query_scalar(FAILED).bind(json(sequences)).fetch_all(pool).await?
            }
        };
        let reset = sequences.iter().copied().filter(|sequence| !failed.contains(sequence));
        Ok(reset.collect())
    }
}

/// Of the column's own type: PostgreSQL would not hash numbers of another one.
fn numbers(slots: &[u16]) -> Vec<i16> {
    slots.iter().filter_map(|slot| i16::try_from(*slot).ok()).collect()
}

fn json<T: serde::Serialize + ?Sized>(values: &T) -> String {
    // Numbers and strings are always JSON.
    serde_json::to_string(values).unwrap_or_default()
}

/// Unpublished rows in the order of their sequence, from the beginning of the table, until the bounds of rows and bytes.
macro_rules! read_postgres {
    ($stops:literal) => {
        concat!(
            "WITH page AS (
                SELECT sequence, slot, id, aggregatetype, aggregateid, type, payload, headers, topic,
                    coalesce(octet_length(payload), 0)::bigint AS size
                FROM milena_outbox
                WHERE published_at IS NULL AND slot = ANY($1) AND sequence <> ALL($2)",
            $stops,
            " ORDER BY sequence LIMIT $3),
            sized AS (
                SELECT *, (sum(size) OVER (ORDER BY sequence ROWS UNBOUNDED PRECEDING))::bigint - size AS before,
                    count(*) OVER () AS whole
                FROM page)
            SELECT sequence, slot::bigint, id::text, aggregatetype, aggregateid, type, payload, headers::text, topic, whole
            FROM sized WHERE before < $4 ORDER BY sequence"
        )
    };
}

const READ_POSTGRES: &str = read_postgres!("");
const READ_POSTGRES_STOPPED: &str = read_postgres!(
    " AND NOT EXISTS (SELECT FROM unnest($5::text[], $6::text[]) AS stopped (kind, id)
        WHERE stopped.kind = aggregatetype AND stopped.id = aggregateid)
    AND coalesce(topic, aggregatetype || '.events') <> ALL($7)"
);

const READ_SQLITE: &str = "WITH page AS (
        SELECT sequence, id, aggregatetype, aggregateid, type, payload, headers, topic,
            coalesce(length(payload), 0) AS size
        FROM milena_outbox
        WHERE published_at IS NULL AND sequence NOT IN (SELECT value FROM json_each($1))
            AND NOT EXISTS (SELECT 1 FROM json_each($4) AS stopped
                WHERE stopped.value ->> 0 = aggregatetype AND stopped.value ->> 1 = aggregateid)
            AND coalesce(topic, aggregatetype || '.events') NOT IN (SELECT value FROM json_each($5))
        ORDER BY sequence LIMIT $2),
    sized AS (
        SELECT *, sum(size) OVER (ORDER BY sequence ROWS UNBOUNDED PRECEDING) - size AS before,
            count(*) OVER () AS whole
        FROM page)
    SELECT sequence, 0, id, aggregatetype, aggregateid, type, payload, headers, topic, whole
    FROM sized WHERE before < $3 ORDER BY sequence";
