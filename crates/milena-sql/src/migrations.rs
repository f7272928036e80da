//! The tables of Milena in a database, and their versions.

use crate::{Connection, Database, Dialect};

/// A step of the schema. Steps are applied once, in order, each in a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    pub version: i32,
    pub name: &'static str,
    pub postgres: &'static str,
    pub sqlite: &'static str,
}

impl Migration {
    /// Statements of this step.
    pub fn sql(&self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Postgres => self.postgres,
            Dialect::Sqlite => self.sqlite,
        }
    }
}

macro_rules! migrations {
    ($($version:literal $name:literal)*) => {
        /// All steps of the schema.
        pub const MIGRATIONS: &[Migration] = &[$(Migration {
            version: $version,
            name: $name,
            postgres: include_str!(concat!("../migrations/postgres/", $name, ".sql")),
            sqlite: include_str!(concat!("../migrations/sqlite/", $name, ".sql")),
        }),*];
    };
}

migrations! {
    1 "01_outbox"
    2 "02_processed_events"
    3 "03_offsets"
    4 "04_checkpoints"
    5 "05_sagas"
}

/// Error of [`Database::migrate`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
    #[error("step {name} of the schema failed: {error}")]
    Step { name: &'static str, error: sqlx::Error },
    #[error(
        "the database has version {found} of the schema, and this program knows versions up to {known}; use a newer program"
    )]
    TooNew { found: i32, known: i32 },
}

const CREATE: &str = "CREATE TABLE IF NOT EXISTS milena_migrations (
    version integer PRIMARY KEY,
    name text NOT NULL,
    applied_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP
)";
const LATEST: &str = "SELECT coalesce(max(version), 0) FROM milena_migrations";
const APPLIED: &str = "INSERT INTO milena_migrations (version, name) VALUES ($1, $2)";
/// Serialises programs that migrate the same database.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7241958201437)";

impl Database {
    /// Creates or upgrades the tables of Milena. Returns the steps that were applied; an up-to-date database has none.
    pub async fn migrate(&self) -> Result<Vec<&'static Migration>, MigrateError> {
        let mut transaction = self.begin().await?;
        let latest: i32 = match transaction.connection() {
            Connection::Postgres(connection) => {
                sqlx::query(LOCK).execute(&mut *connection).await?;
                sqlx::query(CREATE).execute(&mut *connection).await?;
                sqlx::query_scalar(LATEST).fetch_one(connection).await?
            }
            Connection::Sqlite(connection) => {
                sqlx::query(CREATE).execute(&mut *connection).await?;
                sqlx::query_scalar(LATEST).fetch_one(connection).await?
            }
        };
        let known = MIGRATIONS.last().map_or(0, |migration| migration.version);
        if latest > known {
            return Err(MigrateError::TooNew { found: latest, known });
        }
        let missing: Vec<_> = MIGRATIONS.iter().filter(|step| step.version > latest).collect();
        for step in &missing {
            let failed = |error| MigrateError::Step { name: step.name, error };
            match transaction.connection() {
                Connection::Postgres(connection) => {
                    sqlx::raw_sql(step.postgres)
                        .execute(&mut *connection)
                        .await
                        .map_err(failed)?;
                    let applied = sqlx::query(APPLIED).bind(step.version).bind(step.name);
                    applied.execute(connection).await?;
                }
                Connection::Sqlite(connection) => {
                    sqlx::raw_sql(step.sqlite)
                        .execute(&mut *connection)
                        .await
                        .map_err(failed)?;
                    let applied = sqlx::query(APPLIED).bind(step.version).bind(step.name);
                    applied.execute(connection).await?;
                }
            }
        }
        transaction.commit().await?;
        Ok(missing)
    }
}
