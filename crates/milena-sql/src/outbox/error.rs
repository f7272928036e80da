//! Errors of the writers.

use crate::Dialect;

/// An event that cannot be stored or published. Writing it again does not help.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEvent {
    #[error("the {field} of the outbox event is empty")]
    Empty { field: &'static str },
    #[error("the {field} of the outbox event contains a NUL character, which PostgreSQL cannot store")]
    Nul { field: &'static str },
    #[error("the {field} of the outbox event has {bytes} bytes; at most {max} are allowed")]
    TooLong {
        field: &'static str,
        bytes: usize,
        max: usize,
    },
    #[error(
        "the outbox event goes to the topic {topic:?}, which is not a name that Kafka accepts; use letters, digits, `.`, \
         `_` and `-` in the aggregate type, or set a topic"
    )]
    Topic { topic: String },
    #[error("the header {name:?} of the outbox event is set by the relay; use another name")]
    ReservedHeader { name: String },
    #[error("the payload of the outbox event cannot be written as JSON: {0}")]
    Json(#[source] serde_json::Error),
}

/// Error of the writers of the outbox. In PostgreSQL, the transaction can then only be rolled back, unless the error is
/// [`OutboxError::Invalid`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// Nothing was sent to the database.
    #[error(transparent)]
    Invalid(#[from] InvalidEvent),
    #[error("the table milena_outbox is missing; create it with `milena sql init` or Database::migrate")]
    NoTable(#[source] Source),
    #[error("the outbox already has an event with this id")]
    DuplicateId(#[source] Source),
    /// A deadlock, a serialization failure or a lock that was not free in time.
    #[error("the transaction is in conflict with another; run it again: {0}")]
    Conflict(#[source] Source),
    #[error("cannot write to the outbox: {0}")]
    Sql(#[source] Source),
}

/// Error of the database's driver.
type Source = Box<dyn std::error::Error + Send + Sync>;

impl OutboxError {
    /// Whether the whole transaction may succeed if it is run again without a change.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Sorts an error of PostgreSQL by its SQLSTATE.
    pub(super) fn from_postgres(sqlstate: Option<&str>, source: Source) -> Self {
        match sqlstate {
            Some("42P01") => Self::NoTable(source),
            Some("23505") => Self::DuplicateId(source),
            Some("40P01" | "40001" | "55P03") => Self::Conflict(source),
            _ => Self::Sql(source),
        }
    }

    /// Sorts an error of SQLite by its extended result code.
    fn from_sqlite(code: Option<&str>, source: Source) -> Self {
        match code {
            Some("1") if source.to_string().contains("no such table") => Self::NoTable(source),
            // SQLITE_CONSTRAINT_UNIQUE and SQLITE_CONSTRAINT_PRIMARYKEY.
            Some("2067" | "1555") => Self::DuplicateId(source),
            // SQLITE_BUSY, _RECOVERY, _SNAPSHOT, _TIMEOUT; SQLITE_LOCKED, _SHAREDCACHE.
            Some("5" | "261" | "517" | "773" | "6" | "262") => Self::Conflict(source),
            _ => Self::Sql(source),
        }
    }

    pub(super) fn from_sqlx(dialect: Dialect, error: sqlx::Error) -> Self {
        let code = error
            .as_database_error()
            .and_then(|error| error.code().map(String::from));
        match dialect {
            Dialect::Postgres => Self::from_postgres(code.as_deref(), error.into()),
            Dialect::Sqlite => Self::from_sqlite(code.as_deref(), error.into()),
        }
    }
}
