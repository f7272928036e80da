//! Claims of partitions.

use milena_app::offset_store::{Claim, PartitionToClaim, StoredOffset};
use milena_client::consumer::TopicPartition;
use sqlx::Row;

use crate::{Connection, Database};

const INSERT: &str = "INSERT INTO milena_offsets (consumer_group, topic, partition, topic_id, epoch, instance)
    VALUES ($1, $2, $3, $4, 0, $5) ON CONFLICT DO NOTHING";
const LOCK: &str = "SELECT epoch, topic_id, next_offset, leader_epoch, metadata, metadata_offset FROM milena_offsets
    WHERE consumer_group = $1 AND topic = $2 AND partition = $3 FOR UPDATE";
/// SQLite has the write lock already.
const READ: &str = "SELECT epoch, topic_id, next_offset, leader_epoch, metadata, metadata_offset FROM milena_offsets
    WHERE consumer_group = $1 AND topic = $2 AND partition = $3";
const RAISE: &str = "UPDATE milena_offsets SET epoch = $4, instance = $5, topic_id = coalesce($6, topic_id),
        claimed_at = CURRENT_TIMESTAMP
    WHERE consumer_group = $1 AND topic = $2 AND partition = $3";
const FORGET: &str =
    "UPDATE milena_offsets SET next_offset = NULL, leader_epoch = NULL, metadata = '', metadata_offset = 0
    WHERE consumer_group = $1 AND topic = $2 AND partition = $3";
/// Events without an id of their own are identified by topic, partition and offset, which a recreated topic repeats.
const FORGET_EVENTS_POSTGRES: &str = "DELETE FROM milena_processed_events
    WHERE consumer_group = $1 AND substr(event_id, 1, length($2)) = $2 AND substr(event_id, length($2) + 1) ~ '^[0-9]+$'";
const FORGET_EVENTS_SQLITE: &str = "DELETE FROM milena_processed_events
    WHERE consumer_group = $1 AND substr(event_id, 1, length($2)) = $2
        AND substr(event_id, length($2) + 1) GLOB '[0-9]*' AND substr(event_id, length($2) + 1) NOT GLOB '*[^0-9]*'";

/// The row of a partition.
#[derive(Debug)]
struct OffsetRow {
    epoch: i64,
    topic_id: Option<String>,
    stored: Option<StoredOffset>,
}

/// Columns of a row, in the order of [`LOCK`].
type Columns = (i64, Option<String>, Option<i64>, Option<i32>, String, i64);

impl From<Columns> for OffsetRow {
    fn from((epoch, topic_id, offset, leader_epoch, metadata, metadata_offset): Columns) -> Self {
        Self {
            epoch,
            topic_id,
            stored: offset.map(|offset| StoredOffset {
                offset,
                leader_epoch,
                metadata,
                metadata_offset,
            }),
        }
    }
}

/// Raises the epochs of partitions in one transaction.
pub(super) async fn claim(
    database: &Database,
    group: &str,
    instance: &str,
    partitions: &[PartitionToClaim],
) -> Result<Vec<Claim>, sqlx::Error> {
    let mut transaction = database.begin().await?;
    let mut claims = vec![None; partitions.len()];
    let mut order: Vec<(usize, &PartitionToClaim)> = partitions.iter().enumerate().collect();
    // Two claims that lock rows in different orders would wait for each other.
    order.sort_by_key(|(_, wanted)| wanted.partition.clone());
    for (index, wanted) in order {
        let of = Wanted {
            group,
            instance,
            wanted,
        };
        let claim = of.claim(&mut transaction.connection()).await?;
        if let Some(place) = claims.get_mut(index) {
            *place = Some(claim);
        }
    }
    transaction.commit().await?;
    Ok(claims.into_iter().flatten().collect())
}

/// A partition to be claimed by an instance of a group.
struct Wanted<'a> {
    group: &'a str,
    instance: &'a str,
    wanted: &'a PartitionToClaim,
}

/// Binds the key of a row to a statement of either database.
macro_rules! keyed {
    ($sql:expr, $of:expr) => {
        sqlx::query($sql)
            .bind($of.group)
            .bind(&*$of.wanted.partition.topic)
            .bind($of.wanted.partition.partition)
    };
}

macro_rules! claim_with {
    ($of:ident, $connection:ident, $read:ident, $forget_events:ident) => {{
        let new = keyed!(INSERT, $of).bind(&$of.wanted.topic_id).bind($of.instance);
        new.execute(&mut **$connection).await?;
        let row = keyed!($read, $of).fetch_one(&mut **$connection).await?;
        let columns: Columns = (
            row.try_get(0)?,
            row.try_get(1)?,
            row.try_get(2)?,
            row.try_get(3)?,
            row.try_get(4)?,
            row.try_get(5)?,
        );
        let row = OffsetRow::from(columns);
        let is_recreated = row.is_recreated($of.wanted);
        let epoch = row.epoch + 1;
        let raise = keyed!(RAISE, $of).bind(epoch).bind($of.instance);
        raise.bind(&$of.wanted.topic_id).execute(&mut **$connection).await?;
        if is_recreated {
            keyed!(FORGET, $of).execute(&mut **$connection).await?;
            let forget = sqlx::query($forget_events).bind($of.group);
            let forget = forget.bind(event_prefix(&$of.wanted.partition));
            forget.execute(&mut **$connection).await?;
        }
        Claim {
            epoch,
            stored: row.stored.filter(|_| !is_recreated),
            is_recreated,
        }
    }};
}

impl Wanted<'_> {
    async fn claim(&self, connection: &mut Connection<'_>) -> Result<Claim, sqlx::Error> {
        Ok(match connection {
            Connection::Postgres(connection) => claim_with!(self, connection, LOCK, FORGET_EVENTS_POSTGRES),
            Connection::Sqlite(connection) => claim_with!(self, connection, READ, FORGET_EVENTS_SQLITE),
        })
    }
}

impl OffsetRow {
    /// Whether the row is about a deleted topic of the same name.
    fn is_recreated(&self, wanted: &PartitionToClaim) -> bool {
        match (&self.topic_id, &wanted.topic_id) {
            (Some(stored), Some(wanted)) => stored != wanted,
            _ => false,
        }
    }
}

/// The begin of event ids that name an offset of a partition.
fn event_prefix(partition: &TopicPartition) -> String {
    format!("{}-{}-", partition.topic, partition.partition)
}
