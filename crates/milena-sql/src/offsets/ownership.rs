//! The check of ownership that ends the transaction of a handler.

use std::collections::BTreeMap;

use milena_app::{
    handler::Cx,
    offset_store::{Fenced, PartitionOwner},
};
use milena_client::consumer::TopicPartition;

use crate::Connection;

/// In PostgreSQL the lock of this statement is held until the commit, which follows at once. If the process stops in
/// between, the server ends the session after 10 s, so that the next owner need not wait for longer.
const CHECK_POSTGRES: &str =
    "SELECT set_config('idle_in_transaction_session_timeout', '10000', true) FROM milena_offsets
    WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND epoch = $4 FOR KEY SHARE";
const STORE_POSTGRES: &str = "UPDATE milena_offsets SET next_offset = greatest(next_offset, $5), updated_at = now()
    WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND epoch = $4
    RETURNING set_config('idle_in_transaction_session_timeout', '10000', true)";
const CHECK_SQLITE: &str = "SELECT 1 FROM milena_offsets
    WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND epoch = $4";
const STORE_SQLITE: &str = "UPDATE milena_offsets SET next_offset = max(coalesce(next_offset, $5), $5),
        updated_at = CURRENT_TIMESTAMP
    WHERE consumer_group = $1 AND topic = $2 AND partition = $3 AND epoch = $4 RETURNING 1";
const EPOCH: &str = "SELECT epoch FROM milena_offsets WHERE consumer_group = $1 AND topic = $2 AND partition = $3";

/// The handler's transaction is not in the database that has its offsets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the database of the handler's transaction has no offset of {partition} for group {group}; give App::offset_store the \
     database of the transactions, and do not delete from milena_offsets while the application runs"
)]
pub struct NoOffsetRow {
    pub group: String,
    pub partition: TopicPartition,
}

/// Why a transaction cannot be committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnershipError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error(transparent)]
    Fenced(#[from] Fenced),
    #[error(transparent)]
    NoRow(#[from] NoOffsetRow),
}

/// Ownership of a partition that a transaction must still have when it commits.
#[derive(Debug, Clone)]
pub(crate) struct Ownership {
    partition: TopicPartition,
    owner: PartitionOwner,
    /// The offset that is stored with the effect.
    offset: Option<i64>,
}

/// Binds the key of a row to a statement of either database.
macro_rules! keyed {
    ($query:expr, $of:ident) => {
        $query
            .bind(&*$of.owner.group)
            .bind(&*$of.partition.topic)
            .bind($of.partition.partition)
    };
}

macro_rules! store_with {
    ($of:ident, $connection:ident, $check:ident, $store:ident) => {{
        let query = match $of.offset {
            Some(offset) => keyed!(sqlx::query($store), $of).bind($of.owner.epoch).bind(offset),
            None => keyed!(sqlx::query($check), $of).bind($of.owner.epoch),
        };
        if query.fetch_optional(&mut *$connection).await?.is_some() {
            return Ok(());
        }
        let epoch = keyed!(sqlx::query_scalar(EPOCH), $of).fetch_optional($connection);
        Err($of.refused(epoch.await?))
    }};
}

impl Ownership {
    /// The partitions of a call, in order, so that transactions do not wait for each other in a circle. Empty if offsets
    /// are not stored.
    pub(crate) fn of<'a>(records: impl Iterator<Item = &'a Cx>) -> Vec<Self> {
        let mut all = BTreeMap::new();
        for cx in records {
            let Some(owner) = cx.owner() else { continue };
            let partition = cx.record().topic_partition();
            let found = all.entry(partition.clone()).or_insert_with(|| Self {
                partition: partition.clone(),
                owner: owner.clone(),
                offset: None,
            });
            found.offset = found.offset.max(cx.offset_to_store());
        }
        all.into_values().collect()
    }

    /// Stores the offset, or only checks the epoch. It is the last statement of the transaction.
    pub(crate) async fn store(&self, connection: Connection<'_>) -> Result<(), OwnershipError> {
        match connection {
            Connection::Postgres(connection) => store_with!(self, connection, CHECK_POSTGRES, STORE_POSTGRES),
            Connection::Sqlite(connection) => store_with!(self, connection, CHECK_SQLITE, STORE_SQLITE),
        }
    }

    /// Why there is no row with this epoch.
    fn refused(&self, epoch: Option<i64>) -> OwnershipError {
        let partition = self.partition.clone();
        if epoch.is_none() {
            let group = self.owner.group.to_string();
            return NoOffsetRow { group, partition }.into();
        }
        let epoch = self.owner.epoch;
        Fenced { partition, epoch }.into()
    }
}
