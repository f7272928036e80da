//! Snapshots of projections in the database.

use milena_app::{
    handler::BoxError,
    projection::{Snapshot, Snapshots},
};
use milena_client::consumer::TopicPartition;
use sqlx::Row;

use crate::{Connection, Database};

/// Size of the parts of a state. Values of both databases have at most 1 GB, and need several times their size in memory.
const PART_BYTES: usize = 4 << 20;

/// Replaces the head of a snapshot, unless there is a newer one.
const SAVE: &str = "INSERT INTO milena_checkpoints AS stored (projection, topic, partition, next_offset, state_bytes)
    VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (projection, topic, partition) DO UPDATE
        SET next_offset = excluded.next_offset, state_bytes = excluded.state_bytes, saved_at = CURRENT_TIMESTAMP
        WHERE stored.next_offset <= excluded.next_offset";
const CLEAR: &str = "DELETE FROM milena_checkpoint_parts WHERE projection = $1 AND topic = $2 AND partition = $3";
const SAVE_PART: &str = "INSERT INTO milena_checkpoint_parts (projection, topic, partition, number, bytes)
    VALUES ($1, $2, $3, $4, $5)";
const LOAD: &str = "SELECT next_offset, state_bytes FROM milena_checkpoints
    WHERE projection = $1 AND topic = $2 AND partition = $3";
const LOAD_PART: &str = "SELECT bytes FROM milena_checkpoint_parts
    WHERE projection = $1 AND topic = $2 AND partition = $3 AND number = $4";
const DELETE: &str = "DELETE FROM milena_checkpoints WHERE projection = $1 AND topic = $2 AND partition = $3";
/// All statements of a load see the same snapshot.
const BEGIN_LOAD: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// Snapshots of a [`Projection`](milena_app::projection::Projection) in the tables `milena_checkpoints` and
/// `milena_checkpoint_parts`.
///
/// State and offset of a partition are replaced in one transaction, and never by an older snapshot: a previous owner that
/// still runs cannot overwrite the snapshot of the next one.
#[derive(Debug, Clone)]
pub struct SqlSnapshots {
    database: Database,
    projection: String,
}

/// The parts of a stored state do not have its size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the snapshot of {partition} for projection {projection} has {found} bytes and should have {expected}; delete it from \
     milena_checkpoints to start from the first record"
)]
pub struct DamagedSnapshot {
    pub projection: String,
    pub partition: TopicPartition,
    pub expected: i64,
    pub found: usize,
}

/// Binds the key of a snapshot to a statement of either database.
macro_rules! keyed {
    ($sql:expr, $of:ident, $partition:ident) => {
        sqlx::query($sql)
            .bind(&$of.projection)
            .bind(&*$partition.topic)
            .bind($partition.partition)
    };
}

macro_rules! save_with {
    ($of:ident, $connection:ident, $partition:ident, $snapshot:ident) => {{
        let bytes = i64::try_from($snapshot.state.len()).unwrap_or(i64::MAX);
        let save = keyed!(SAVE, $of, $partition).bind($snapshot.offset).bind(bytes);
        if save.execute(&mut *$connection).await?.rows_affected() == 0 {
            return Ok(false);
        }
        keyed!(CLEAR, $of, $partition).execute(&mut *$connection).await?;
        for (number, part) in (0_i32..).zip($snapshot.state.chunks(PART_BYTES)) {
            let save = keyed!(SAVE_PART, $of, $partition).bind(number).bind(part);
            save.execute(&mut *$connection).await?;
        }
        Ok(true)
    }};
}

macro_rules! load_with {
    ($of:ident, $transaction:ident, $partition:ident) => {{
        let head = keyed!(LOAD, $of, $partition).fetch_optional(&mut *$transaction).await?;
        let Some(head) = head else { return Ok(None) };
        let (offset, expected): (i64, i64) = (head.try_get(0)?, head.try_get(1)?);
        let mut state: Vec<u8> = vec![];
        for number in 0_i32.. {
            let part = keyed!(LOAD_PART, $of, $partition).bind(number);
            let Some(part) = part.fetch_optional(&mut *$transaction).await? else {
                break;
            };
            state.extend_from_slice(part.try_get(0)?);
        }
        $of.checked($partition, offset, expected, state).map(Some)
    }};
}

impl SqlSnapshots {
    /// Snapshots of the projection with this name. Projections with different states need different names.
    pub fn new(database: impl Into<Database>, projection: impl Into<String>) -> Self {
        Self {
            database: database.into(),
            projection: projection.into(),
        }
    }

    /// Deletes the snapshot of a partition: its state is built again from the first record. Needed after the topic was
    /// deleted and created again, because a snapshot is never replaced by one with a lower offset.
    pub async fn delete(&self, partition: &TopicPartition) -> Result<(), sqlx::Error> {
        let mut transaction = self.database.begin().await?;
        match transaction.connection() {
            Connection::Postgres(connection) => {
                keyed!(CLEAR, self, partition).execute(&mut *connection).await?;
                keyed!(DELETE, self, partition).execute(connection).await?;
            }
            Connection::Sqlite(connection) => {
                keyed!(CLEAR, self, partition).execute(&mut *connection).await?;
                keyed!(DELETE, self, partition).execute(connection).await?;
            }
        }
        transaction.commit().await
    }

    /// Saves in a transaction; `false` if there is a newer snapshot.
    async fn save_in(
        &self,
        connection: Connection<'_>,
        partition: &TopicPartition,
        snapshot: &Snapshot,
    ) -> Result<bool, sqlx::Error> {
        match connection {
            Connection::Postgres(connection) => save_with!(self, connection, partition, snapshot),
            Connection::Sqlite(connection) => save_with!(self, connection, partition, snapshot),
        }
    }

    fn checked(
        &self,
        partition: &TopicPartition,
        offset: i64,
        expected: i64,
        state: Vec<u8>,
    ) -> Result<Snapshot, BoxError> {
        if i64::try_from(state.len()) == Ok(expected) {
            return Ok(Snapshot { offset, state });
        }
        Err(DamagedSnapshot {
            projection: self.projection.clone(),
            partition: partition.clone(),
            expected,
            found: state.len(),
        }
        .into())
    }
}

impl Snapshots for SqlSnapshots {
    async fn load(&self, partition: &TopicPartition) -> Result<Option<Snapshot>, BoxError> {
        match &self.database {
            Database::Postgres(pool) => {
                let mut transaction = pool.begin_with(BEGIN_LOAD).await?;
                load_with!(self, transaction, partition)
            }
            Database::Sqlite(pool) => {
                let mut transaction = pool.begin().await?;
                load_with!(self, transaction, partition)
            }
        }
    }

    async fn save(&self, partition: &TopicPartition, snapshot: Snapshot) -> Result<(), BoxError> {
        let mut transaction = self.database.begin().await?;
        let is_saved = self.save_in(transaction.connection(), partition, &snapshot).await?;
        if !is_saved {
            tracing::warn!(
                event = "snapshot_outdated",
                %partition,
                offset = snapshot.offset,
                "the snapshot of {partition} at offset {} was not saved: there is a newer one",
                snapshot.offset
            );
            transaction.rollback().await?;
            return Ok(());
        }
        transaction.commit().await?;
        Ok(())
    }
}
