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

/// A step of the schema and whether a database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStatus {
    pub version: i32,
    pub name: String,
    /// Time of the step as the database writes it; `None` before it is applied.
    pub applied_at: Option<String>,
}

/// Script that creates the tables in an empty database, for programs such as `psql` and `sqlite3`. Afterwards,
/// [`Database::migrate`] applies later steps only.
pub fn script(dialect: Dialect) -> String {
    let mut script = format!("BEGIN;\n{CREATE};\n");
    for step in MIGRATIONS {
        let Migration { version, name, .. } = step;
        let sql = step.sql(dialect);
        script.push_str(&format!(
            "\n{sql}INSERT INTO milena_migrations (version, name) VALUES ({version}, '{name}');\n"
        ));
    }
    script.push_str("\nCOMMIT;\n");
    script
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

const HAS_TABLE_POSTGRES: &str = "SELECT to_regclass('milena_migrations') IS NOT NULL";
const HAS_TABLE_SQLITE: &str =
    "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'milena_migrations'";
const HISTORY: &str = "SELECT version, name, CAST(applied_at AS text) FROM milena_migrations ORDER BY version";

impl Database {
    /// Steps of the schema, known and applied ones, in order. Changes nothing.
    pub async fn migration_status(&self) -> Result<Vec<MigrationStatus>, sqlx::Error> {
        let has_table: bool = match self {
            Self::Postgres(pool) => sqlx::query_scalar(HAS_TABLE_POSTGRES).fetch_one(pool).await?,
            Self::Sqlite(pool) => sqlx::query_scalar(HAS_TABLE_SQLITE).fetch_one(pool).await?,
        };
        let applied: Vec<(i32, String, String)> = match self {
            _ if !has_table => vec![],
            Self::Postgres(pool) => sqlx::query_as(HISTORY).fetch_all(pool).await?,
            Self::Sqlite(pool) => sqlx::query_as(HISTORY).fetch_all(pool).await?,
        };
        let last = applied.last().map_or(0, |(version, ..)| *version);
        let missing = MIGRATIONS.iter().filter(|step| step.version > last);
        let missing = missing.map(|step| MigrationStatus {
            version: step.version,
            name: step.name.to_owned(),
            applied_at: None,
        });
        let applied = applied.into_iter().map(|(version, name, applied_at)| MigrationStatus {
            version,
            name,
            applied_at: Some(applied_at),
        });
        Ok(applied.chain(missing).collect())
    }

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
