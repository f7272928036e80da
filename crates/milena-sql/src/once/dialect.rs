//! Statements about processed events in each database.

use std::{collections::BTreeSet, future::Future};

use sqlx::{Connection as _, Error, Pool, Postgres, QueryBuilder, SqlSafeStr, SqlStr, Sqlite, query::Query};

use super::key::EventKey;
use crate::{Connection, Database};

/// A database whose transactions handlers can take: [`Postgres`] or [`Sqlite`].
pub trait TxDatabase: sqlx::Database + sealed::Statements {}

impl TxDatabase for Postgres {}
impl TxDatabase for Sqlite {}

pub(crate) mod sealed {
    use super::*;

    pub trait Statements: sqlx::Database {
        /// Name of the argument in texts.
        const ARGUMENT: &'static str;

        /// The pool, if it is of this database.
        fn pool(database: &Database) -> Option<&Pool<Self>>;

        /// First statement of a transaction that writes.
        fn begin() -> SqlStr;

        /// Notes an event as processed. Returns `false` if it is noted already. Waits for a transaction that has noted
        /// it and has not ended.
        fn note(connection: &mut Self::Connection, key: &EventKey) -> impl Future<Output = Result<bool, Error>> + Send;

        /// Notes several events of one consumer, in order of their ids. Returns the ids that were not noted before.
        fn note_all(
            connection: &mut Self::Connection,
            keys: &[EventKey],
        ) -> impl Future<Output = Result<BTreeSet<String>, Error>> + Send;

        /// Fails if the transaction cannot be committed although `COMMIT` would succeed.
        fn check(connection: &mut Self::Connection) -> impl Future<Output = Result<(), Error>> + Send;

        /// Returns the number of changed rows.
        fn execute(
            connection: &mut Self::Connection,
            query: Query<'_, Self, Self::Arguments>,
        ) -> impl Future<Output = Result<u64, Error>> + Send;

        /// Executes a statement whose failure does not end the transaction.
        fn execute_in_savepoint(
            connection: &mut Self::Connection,
            query: Query<'_, Self, Self::Arguments>,
        ) -> impl Future<Output = Result<u64, Error>> + Send;

        fn connection(connection: &mut Self::Connection) -> Connection<'_>;
    }
}

const NOTE: &str = "INSERT INTO milena_processed_events (consumer_group, handler, event_id) VALUES ($1, $2, $3)
    ON CONFLICT DO NOTHING";

impl sealed::Statements for Postgres {
    const ARGUMENT: &'static str = "Tx<Postgres>";

    fn pool(database: &Database) -> Option<&Pool<Self>> {
        match database {
            Database::Postgres(pool) => Some(pool),
            Database::Sqlite(_) => None,
        }
    }

    fn begin() -> SqlStr {
        "BEGIN".into_sql_str()
    }

    async fn note(connection: &mut Self::Connection, key: &EventKey) -> Result<bool, Error> {
        let note = sqlx::query(NOTE)
            .bind(&key.group)
            .bind(&key.handler)
            .bind(&key.event_id);
        Ok(note.execute(connection).await?.rows_affected() > 0)
    }

    async fn note_all(connection: &mut Self::Connection, keys: &[EventKey]) -> Result<BTreeSet<String>, Error> {
        let Some(first) = keys.first() else {
            return Ok(BTreeSet::new());
        };
        let ids: Vec<&str> = keys.iter().map(|key| key.event_id.as_str()).collect();
        let note = sqlx::query_scalar(
            "INSERT INTO milena_processed_events (consumer_group, handler, event_id) SELECT $1, $2, unnest($3::text[])
                ON CONFLICT DO NOTHING RETURNING event_id",
        );
        let note = note.bind(&first.group).bind(&first.handler).bind(ids);
        let noted: Vec<String> = note.fetch_all(connection).await?;
        Ok(noted.into_iter().collect())
    }

    /// In a transaction with a failed statement `COMMIT` succeeds and rolls back.
    async fn check(connection: &mut Self::Connection) -> Result<(), Error> {
        sqlx::query("SELECT").execute(connection).await?;
        Ok(())
    }

    async fn execute(connection: &mut Self::Connection, query: Query<'_, Self, Self::Arguments>) -> Result<u64, Error> {
        Ok(query.execute(connection).await?.rows_affected())
    }

    async fn execute_in_savepoint(
        connection: &mut Self::Connection,
        query: Query<'_, Self, Self::Arguments>,
    ) -> Result<u64, Error> {
        let mut savepoint = connection.begin().await?;
        match query.execute(&mut *savepoint).await {
            Ok(done) => {
                savepoint.commit().await?;
                Ok(done.rows_affected())
            }
            Err(error) => {
                savepoint.rollback().await?;
                Err(error)
            }
        }
    }

    fn connection(connection: &mut Self::Connection) -> Connection<'_> {
        Connection::Postgres(connection)
    }
}

impl sealed::Statements for Sqlite {
    const ARGUMENT: &'static str = "Tx<Sqlite>";

    fn pool(database: &Database) -> Option<&Pool<Self>> {
        match database {
            Database::Sqlite(pool) => Some(pool),
            Database::Postgres(_) => None,
        }
    }

    fn begin() -> SqlStr {
        "BEGIN IMMEDIATE".into_sql_str()
    }

    async fn note(connection: &mut Self::Connection, key: &EventKey) -> Result<bool, Error> {
        let note = sqlx::query(NOTE)
            .bind(&key.group)
            .bind(&key.handler)
            .bind(&key.event_id);
        Ok(note.execute(connection).await?.rows_affected() > 0)
    }

    async fn note_all(connection: &mut Self::Connection, keys: &[EventKey]) -> Result<BTreeSet<String>, Error> {
        /// SQLite allows 32,766 parameters in a statement.
        const KEYS_MAX: usize = 5_000;
        let mut noted = BTreeSet::new();
        for some in keys.chunks(KEYS_MAX) {
            let mut note =
                QueryBuilder::new("INSERT INTO milena_processed_events (consumer_group, handler, event_id) ");
            note.push_values(some, |mut row, key| {
                row.push_bind(&key.group)
                    .push_bind(&key.handler)
                    .push_bind(&key.event_id);
            });
            note.push(" ON CONFLICT DO NOTHING RETURNING event_id");
            let some: Vec<String> = note.build_query_scalar().fetch_all(&mut *connection).await?;
            noted.extend(some);
        }
        Ok(noted)
    }

    /// An error that ends the transaction makes `COMMIT` fail too.
    async fn check(_connection: &mut Self::Connection) -> Result<(), Error> {
        Ok(())
    }

    async fn execute(connection: &mut Self::Connection, query: Query<'_, Self, Self::Arguments>) -> Result<u64, Error> {
        Ok(query.execute(connection).await?.rows_affected())
    }

    async fn execute_in_savepoint(
        connection: &mut Self::Connection,
        query: Query<'_, Self, Self::Arguments>,
    ) -> Result<u64, Error> {
        let mut savepoint = connection.begin().await?;
        match query.execute(&mut *savepoint).await {
            Ok(done) => {
                savepoint.commit().await?;
                Ok(done.rows_affected())
            }
            Err(error) => {
                savepoint.rollback().await?;
                Err(error)
            }
        }
    }

    fn connection(connection: &mut Self::Connection) -> Connection<'_> {
        Connection::Sqlite(connection)
    }
}
