//! Clean-up of processed events.
//!
//! A row may go when no copy of its event can be delivered again. Copies are in the topics of the handler, in their retry
//! and held-keys topics, and in dead letter topics. A topic keeps a record for `retention.ms`, and then until its segment
//! is deleted: at most `segment.ms` longer.

mod background;
mod retention;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use milena_app::{TopicNameError, topics_of_handler};
use milena_client::admin::{Admin, AdminError};

use crate::{Connection, Database};
pub use background::CleanUpTask;
pub use retention::TopicRetention;

const DAY: Duration = Duration::from_secs(86_400);
/// Time for which processed events are kept at least, unless another is set.
pub const KEEP: Duration = DAY.saturating_mul(30);
/// Number of rows in a transaction, so that it is short.
const ROWS_MAX: i64 = 5_000;

/// Deletes processed events of a group that are too old to be delivered again.
///
/// ```no_run
/// # use std::time::Duration;
/// # use milena_client::admin::Admin;
/// # use milena_sql::{Database, once::CleanUp};
/// # async fn example(database: Database, admin: Admin) -> Result<(), Box<dyn std::error::Error>> {
/// let cleaned = CleanUp::new("billing").clean(&database, &admin).await?;
/// println!("{} events deleted, those of {:?} kept", cleaned.deleted, cleaned.keep);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is deleted before clean"]
pub struct CleanUp {
    group: String,
    keep: Option<Duration>,
    further: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

/// Result of a clean-up.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cleaned {
    pub deleted: u64,
    /// Time for which events are kept.
    pub keep: Duration,
    /// The topics that were checked.
    pub topics: BTreeMap<String, TopicRetention>,
}

/// Reason why nothing was deleted, or not all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanError {
    #[error(
        "processed events of group {group} are to be kept for {keep_ms} ms, and topic {topic} keeps records for up to \
         {required_ms} ms (retention.ms and segment.ms): a record that is delivered again would have its effect twice; \
         keep the events for at least as long"
    )]
    TooShort {
        group: String,
        topic: String,
        keep_ms: u128,
        required_ms: u128,
    },
    #[error(
        "topic {topic} keeps records for ever (retention.ms=-1, or cleanup.policy={policy}): no processed event of group \
         {group} can be deleted; name the topic as ignored if its old records are never read again"
    )]
    Unlimited {
        group: String,
        topic: String,
        policy: String,
    },
    #[error("cannot read the retention of topic {topic}, so nothing is deleted; allow DescribeConfigs: {error}")]
    Unknown { topic: String, error: AdminError },
    #[error("listing the topics of the cluster failed: {0}")]
    Topics(#[source] AdminError),
    #[error(transparent)]
    Handler(#[from] TopicNameError),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

impl CleanUp {
    /// Keeps events for [`KEEP`], or longer if a topic keeps its records longer.
    pub fn new(group: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            keep: None,
            further: BTreeSet::new(),
            ignored: BTreeSet::new(),
        }
    }

    /// Keeps events for this time. It is an error if a topic keeps its records longer.
    pub fn keep(mut self, time: Duration) -> Self {
        self.keep = Some(time);
        self
    }

    /// Checks a further topic that has records of the group's handlers, such as a dead letter topic with a name of its
    /// own.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.further.insert(topic.into());
        self
    }

    /// Does not check a topic: its records are never read again after this time.
    pub fn ignore_topic(mut self, topic: impl Into<String>) -> Self {
        self.ignored.insert(topic.into());
        self
    }

    /// Checks the topics and deletes the events that are older than all their records.
    pub async fn clean(&self, database: &Database, admin: &Admin) -> Result<Cleaned, CleanError> {
        let (keep, topics) = self.check(database, admin).await?;
        let deleted = delete(database, &self.group, keep).await?;
        Ok(Cleaned { deleted, keep, topics })
    }

    /// A background task of an application that cleans at its start and then hourly: `App::background(…)`.
    pub fn background(self, database: Database) -> CleanUpTask {
        CleanUpTask { clean: self, database }
    }

    /// Returns the time for which events must be kept, and the topics that it is from.
    async fn check(
        &self,
        database: &Database,
        admin: &Admin,
    ) -> Result<(Duration, BTreeMap<String, TopicRetention>), CleanError> {
        let listed = admin.list_topics().await.map_err(CleanError::Topics)?;
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for handler in handlers(database, &self.group).await? {
            names.extend(topics_of_handler(&handler, listed.keys().map(|topic| &**topic))?);
        }
        let further = self.further.iter().map(String::as_str);
        names.extend(further.filter(|topic| listed.contains_key(*topic)));
        names.retain(|topic| !self.ignored.contains(*topic));
        let topics = retention::describe(admin, names).await?;
        let keep = self.period(&topics)?;
        Ok((keep, topics))
    }

    /// Compares the time with the retention of the topics.
    fn period(&self, topics: &BTreeMap<String, TopicRetention>) -> Result<Duration, CleanError> {
        let mut keep = self.keep.unwrap_or(KEEP);
        for (topic, retention) in topics {
            let (group, topic) = (self.group.clone(), topic.clone());
            let Some(required) = retention.longest() else {
                let policy = retention.policy.clone();
                return Err(CleanError::Unlimited { group, topic, policy });
            };
            if self.keep.is_some() && required > keep {
                return Err(CleanError::TooShort {
                    group,
                    topic,
                    keep_ms: keep.as_millis(),
                    required_ms: required.as_millis(),
                });
            }
            keep = keep.max(required);
        }
        Ok(keep)
    }
}

/// The handlers of a group that have processed events.
async fn handlers(database: &Database, group: &str) -> Result<Vec<String>, sqlx::Error> {
    const HANDLERS: &str = "SELECT DISTINCT handler FROM milena_processed_events WHERE consumer_group = $1";
    match database {
        Database::Postgres(pool) => sqlx::query_scalar(HANDLERS).bind(group).fetch_all(pool).await,
        Database::Sqlite(pool) => sqlx::query_scalar(HANDLERS).bind(group).fetch_all(pool).await,
    }
}

/// Deletes in short transactions. The clock is that of the database, as for the rows.
async fn delete(database: &Database, group: &str, keep: Duration) -> Result<u64, sqlx::Error> {
    const POSTGRES: &str = "DELETE FROM milena_processed_events WHERE ctid = ANY (ARRAY(
            SELECT ctid FROM milena_processed_events
            WHERE consumer_group = $1 AND processed_at < now() - make_interval(secs => $2) LIMIT $3))";
    const SQLITE: &str = "DELETE FROM milena_processed_events WHERE (consumer_group, handler, event_id) IN (
            SELECT consumer_group, handler, event_id FROM milena_processed_events
            WHERE consumer_group = $1
                AND processed_at < CAST((julianday('now') - 2440587.5) * 86400000 AS integer) - $2 LIMIT $3)";
    let mut deleted = 0;
    loop {
        let mut transaction = database.begin().await?;
        let some = match transaction.connection() {
            Connection::Postgres(connection) => {
                let delete = sqlx::query(POSTGRES)
                    .bind(group)
                    .bind(keep.as_secs_f64())
                    .bind(ROWS_MAX);
                delete.execute(connection).await?.rows_affected()
            }
            Connection::Sqlite(connection) => {
                let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX / 2);
                let delete = sqlx::query(SQLITE).bind(group).bind(keep_ms).bind(ROWS_MAX);
                delete.execute(connection).await?.rows_affected()
            }
        };
        transaction.commit().await?;
        deleted += some;
        if some < ROWS_MAX.unsigned_abs() {
            return Ok(deleted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(retention_days: i64, policy: &str) -> BTreeMap<String, TopicRetention> {
        let retention = TopicRetention {
            policy: policy.to_owned(),
            retention_ms: retention_days.saturating_mul(86_400_000),
            segment_ms: 86_400_000,
        };
        BTreeMap::from([("orders".to_owned(), retention)])
    }

    #[test]
    fn the_period_is_never_shorter_than_a_topic_keeps_records() {
        let clean = || CleanUp::new("billing");
        assert_eq!(clean().period(&topics(7, "delete")).unwrap(), KEEP);
        assert_eq!(clean().period(&topics(30, "delete")).unwrap(), DAY * 31);
        let week = clean().keep(DAY * 7);
        let error = week.period(&topics(7, "delete")).unwrap_err();
        assert!(
            matches!(&error, CleanError::TooShort { topic, .. } if topic == "orders"),
            "{error}"
        );
        assert_eq!(week.period(&topics(6, "delete")).unwrap(), DAY * 7);
    }

    #[test]
    fn records_that_stay_for_ever_keep_their_events() {
        for topics in [topics(-1, "delete"), topics(7, "compact"), topics(7, "compact, delete")] {
            let error = CleanUp::new("billing").period(&topics).unwrap_err();
            assert!(matches!(&error, CleanError::Unlimited { .. }), "{error}");
        }
    }
}
