//! Offsets in the database: the fourth delivery mode.
//!
//! A handler that is registered with [`App::stored_offsets`](milena_app::App::stored_offsets) takes a
//! [`Tx`](crate::once::Tx). Its effect, its processed-event row and its offset are in one database. [`SqlOffsets`] is the
//! store:
//!
//! ```no_run
//! use milena_app::prelude::*;
//! use milena_sql::{Database, offsets::SqlOffsets, once::{PgTx, fault}, sqlx};
//!
//! async fn count(mut tx: PgTx) -> Result<(), Fault> {
//!     let count = sqlx::query("UPDATE totals SET sales = sales + 1");
//!     count.execute(&mut *tx).await.map_err(fault)?;
//!     Ok(())
//! }
//!
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! let database = Database::connect("postgres://app@localhost/app").await?;
//! database.migrate().await?;
//! let app = App::new("127.0.0.1:9092")
//!     .group("totals")
//!     .state(database.clone())
//!     .offset_store(SqlOffsets::new(database))
//!     .stored_offsets("sales", count, |policy| policy.order(Order::Partition));
//! app.run_until(shutdown_signal()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`milena_app::offset_store`] states the invariants. In PostgreSQL they follow from row locks: a claim takes
//! `FOR UPDATE` on the row of its partition, transactions of handlers take `FOR KEY SHARE` or update the row as their last
//! statement. The latter wait for a claim, see its epoch, and fail; a claim waits for those that came first. In SQLite one
//! transaction writes at a time.

mod claims;
mod ownership;

use milena_app::{
    handler::BoxError,
    offset_store::{Claim, OffsetStore, OffsetToStore, PartitionToClaim, StoreFuture},
};
use milena_client::consumer::TopicPartition;
pub use ownership::NoOffsetRow;
pub(crate) use ownership::{Ownership, OwnershipError};
use sqlx::Row;

use crate::{Connection, Database};

/// Offsets in the table `milena_offsets` of a database.
#[derive(Debug, Clone)]
pub struct SqlOffsets {
    database: Database,
}

/// The database has no table for offsets.
#[derive(Debug, thiserror::Error)]
#[error("cannot read milena_offsets; create the tables with `milena sql init` or Database::migrate: {0}")]
pub struct NoOffsetTable(#[source] pub sqlx::Error);

const CHECK: &str = "SELECT count(*) FROM milena_offsets WHERE false";

impl SqlOffsets {
    /// Offsets in the database that handlers have their transactions in.
    pub fn new(database: impl Into<Database>) -> Self {
        Self {
            database: database.into(),
        }
    }

    async fn check_table(&self) -> Result<(), sqlx::Error> {
        let _: i64 = match &self.database {
            Database::Postgres(pool) => sqlx::query_scalar(CHECK).fetch_one(pool).await?,
            Database::Sqlite(pool) => sqlx::query_scalar(CHECK).fetch_one(pool).await?,
        };
        Ok(())
    }

    async fn store(&self, group: &str, offsets: &[OffsetToStore]) -> Result<Vec<TopicPartition>, sqlx::Error> {
        if offsets.is_empty() {
            return Ok(vec![]);
        }
        match &self.database {
            Database::Postgres(pool) => {
                let stored = store_postgres(pool, group, offsets).await?;
                let is_stored =
                    |partition: &TopicPartition| stored.contains(&(partition.topic.to_string(), partition.partition));
                let partitions = offsets.iter().map(|offset| &offset.partition);
                Ok(partitions.filter(|partition| !is_stored(partition)).cloned().collect())
            }
            Database::Sqlite(_) => self.store_sqlite(group, offsets).await,
        }
    }

    async fn store_sqlite(&self, group: &str, offsets: &[OffsetToStore]) -> Result<Vec<TopicPartition>, sqlx::Error> {
        let mut transaction = self.database.begin().await?;
        let mut fenced = vec![];
        for offset in offsets {
            let Connection::Sqlite(connection) = transaction.connection() else {
                continue;
            };
            let store = sqlx::query(
                "UPDATE milena_offsets SET next_offset = max(coalesce(next_offset, $5), $5), metadata_offset = $5,
                    leader_epoch = $6, metadata = $7, updated_at = CURRENT_TIMESTAMP
                 WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND epoch = $4",
            );
            let store = store
                .bind(group)
                .bind(&*offset.partition.topic)
                .bind(offset.partition.partition)
                .bind(offset.epoch)
                .bind(offset.offset)
                .bind(offset.leader_epoch)
                .bind(&offset.metadata);
            if store.execute(connection).await?.rows_affected() == 0 {
                fenced.push(offset.partition.clone());
            }
        }
        transaction.commit().await?;
        Ok(fenced)
    }
}

/// Stores offsets in one statement. Returns the partitions that are still owned.
async fn store_postgres(
    pool: &sqlx::PgPool,
    group: &str,
    offsets: &[OffsetToStore],
) -> Result<Vec<(String, i32)>, sqlx::Error> {
    let store = sqlx::query(
        "UPDATE milena_offsets AS stored SET next_offset = greatest(stored.next_offset, new.next_offset),
            metadata_offset = new.next_offset, leader_epoch = new.leader_epoch, metadata = new.metadata,
            updated_at = now()
         FROM unnest($2::text[], $3::integer[], $4::bigint[], $5::bigint[], $6::integer[], $7::text[])
            AS new (topic, partition, epoch, next_offset, leader_epoch, metadata)
         WHERE stored.consumer_group = $1 AND stored.topic = new.topic AND stored.partition = new.partition
            AND stored.epoch = new.epoch
         RETURNING stored.topic, stored.partition",
    );
    let topics: Vec<&str> = offsets.iter().map(|offset| &*offset.partition.topic).collect();
    let partitions: Vec<i32> = offsets.iter().map(|offset| offset.partition.partition).collect();
    let epochs: Vec<i64> = offsets.iter().map(|offset| offset.epoch).collect();
    let next: Vec<i64> = offsets.iter().map(|offset| offset.offset).collect();
    let leader_epochs: Vec<Option<i32>> = offsets.iter().map(|offset| offset.leader_epoch).collect();
    let metadata: Vec<&str> = offsets.iter().map(|offset| offset.metadata.as_str()).collect();
    let store = store
        .bind(group)
        .bind(topics)
        .bind(partitions)
        .bind(epochs)
        .bind(next)
        .bind(leader_epochs)
        .bind(metadata);
    let rows = store.fetch_all(pool).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

impl OffsetStore for SqlOffsets {
    fn check(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            let checked = self.check_table().await;
            checked.map_err(|error| BoxError::from(NoOffsetTable(error)))
        })
    }

    fn claim<'a>(
        &'a self,
        group: &'a str,
        instance: &'a str,
        partitions: &'a [PartitionToClaim],
    ) -> StoreFuture<'a, Vec<Claim>> {
        Box::pin(async move { Ok(claims::claim(&self.database, group, instance, partitions).await?) })
    }

    fn commit<'a>(&'a self, group: &'a str, offsets: &'a [OffsetToStore]) -> StoreFuture<'a, Vec<TopicPartition>> {
        Box::pin(async move { Ok(self.store(group, offsets).await?) })
    }
}
