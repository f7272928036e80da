//! Pools of connections to PostgreSQL and SQLite.

use std::{fmt, str::FromStr, time::Duration};

use sqlx::{
    ConnectOptions as _, Connection as _, PgPool, SqlitePool,
    postgres::{PgConnectOptions, PgPoolOptions},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use crate::Transaction;

/// Number of connections of a pool that [`Database::connect`] makes.
const MAX_CONNECTIONS: u32 = 10;
/// Time for which a writer of SQLite waits for another.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Postgres,
    Sqlite,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "postgres",
            Self::Sqlite => "sqlite",
        })
    }
}

/// A pool of connections to PostgreSQL or SQLite.
#[derive(Debug, Clone)]
pub enum Database {
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// Error of [`Database::connect`]. It never contains the password of the URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    #[error(
        "the database URL has the scheme `{scheme}`; use postgres://user:password@host:port/database or sqlite://path"
    )]
    Scheme { scheme: String },
    #[error("the database URL is not valid: {0}")]
    Url(#[source] sqlx::Error),
    #[error("cannot connect to {server}: {error}")]
    Connect { server: String, error: sqlx::Error },
}

impl Database {
    /// Connects to `postgres://…`, `postgresql://…` or `sqlite://…`. A missing SQLite file is created; its journal is a
    /// write-ahead log, so that readers do not wait for writers.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::open(url, true).await
    }

    /// As [`Database::connect`], but a missing SQLite file is an error.
    pub async fn connect_existing(url: &str) -> Result<Self, ConnectError> {
        Self::open(url, false).await
    }

    async fn open(url: &str, create_if_missing: bool) -> Result<Self, ConnectError> {
        match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(url).map_err(ConnectError::Url)?;
                let server = format!("PostgreSQL at {}:{}", options.get_host(), options.get_port());
                let failed = |error| ConnectError::Connect { server, error };
                // A pool would try for 30 s and then report the time, not the reason.
                match options.connect().await {
                    Ok(connection) => drop(connection.close().await),
                    Err(error) => return Err(failed(error)),
                }
                let pool = PgPoolOptions::new()
                    .max_connections(MAX_CONNECTIONS)
                    .connect_with(options);
                Ok(Self::Postgres(pool.await.map_err(failed)?))
            }
            "sqlite" => {
                let options = SqliteConnectOptions::from_str(url)
                    .map_err(ConnectError::Url)?
                    .create_if_missing(create_if_missing)
                    .journal_mode(SqliteJournalMode::Wal)
                    .synchronous(SqliteSynchronous::Full)
                    .busy_timeout(BUSY_TIMEOUT);
                let server = format!("SQLite in {}", options.get_filename().display());
                let pool = SqlitePoolOptions::new()
                    .max_connections(MAX_CONNECTIONS)
                    .connect_with(options);
                let pool = pool.await.map_err(|error| ConnectError::Connect { server, error })?;
                Ok(Self::Sqlite(pool))
            }
            scheme => Err(ConnectError::Scheme {
                scheme: scheme.to_owned(),
            }),
        }
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres(_) => Dialect::Postgres,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }

    /// Begins a transaction that may write. In SQLite it takes the write lock at once: a transaction that reads first and
    /// then writes would fail if another wrote in between.
    pub async fn begin(&self) -> Result<Transaction, sqlx::Error> {
        Ok(match self {
            Self::Postgres(pool) => Transaction::Postgres(pool.begin().await?),
            Self::Sqlite(pool) => Transaction::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?),
        })
    }

    /// Begins a transaction that only reads. In SQLite it does not wait for writers.
    pub async fn begin_read(&self) -> Result<Transaction, sqlx::Error> {
        Ok(match self {
            Self::Postgres(pool) => Transaction::Postgres(pool.begin().await?),
            Self::Sqlite(pool) => Transaction::Sqlite(pool.begin().await?),
        })
    }

    /// Closes all connections.
    pub async fn close(&self) {
        match self {
            Self::Postgres(pool) => pool.close().await,
            Self::Sqlite(pool) => pool.close().await,
        }
    }
}

impl From<PgPool> for Database {
    fn from(pool: PgPool) -> Self {
        Self::Postgres(pool)
    }
}

impl From<SqlitePool> for Database {
    fn from(pool: SqlitePool) -> Self {
        Self::Sqlite(pool)
    }
}
