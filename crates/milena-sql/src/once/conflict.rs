//! Conflicts that a handler expects: a natural key that exists, and a version that is not the expected one.

use std::borrow::Cow;

use milena_app::handler::{Done, Fault};
use sqlx::{Error, query::Query};

use super::{Tx, TxDatabase, fault};

/// Outcome of [`Tx::insert_unique`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inserted {
    /// The row is new.
    New,
    /// A row with this key is there already. Nothing was changed.
    Exists {
        /// Name of the violated constraint in PostgreSQL, its columns in SQLite. `None` if the statement has `ON CONFLICT
        /// DO NOTHING`.
        constraint: Option<String>,
    },
}

impl Inserted {
    pub fn is_new(&self) -> bool {
        *self == Self::New
    }

    /// `Done::Ok` for a new row, `Done::Duplicate` for one that exists.
    pub fn or_duplicate(&self) -> Done {
        if self.is_new() { Done::Ok } else { Done::Duplicate }
    }
}

/// Outcome of [`Tx::update_version`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a conflict changes nothing: retry or skip"]
pub enum Versioned {
    Updated,
    /// The row has another version, or there is none. Nothing was changed.
    Conflict,
}

/// The row that was to be updated has another version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the row has another version than the one that was read, or was deleted")]
pub struct VersionConflict;

impl Versioned {
    /// Fails with a retry after a conflict: the next attempt reads the new version.
    pub fn or_retry(self) -> Result<(), Fault> {
        match self {
            Self::Updated => Ok(()),
            Self::Conflict => Err(Fault::retry(VersionConflict)),
        }
    }

    /// Skips the record after a conflict, for events that are out of date then.
    pub fn or_skip(self, why: impl Into<Cow<'static, str>>) -> Done {
        match self {
            Self::Updated => Done::Ok,
            Self::Conflict => Done::Skip(why.into()),
        }
    }
}

/// A versioned update changed several rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a versioned update changed {rows} rows; name the key and the version of one row in its WHERE")]
pub struct SeveralRows {
    pub rows: u64,
}

impl<DB: TxDatabase> Tx<DB> {
    /// Inserts a row whose natural key has a unique constraint, such as the number of an invoice.
    ///
    /// A violation of a unique constraint is an outcome and no error. The statement runs in a savepoint, because in
    /// PostgreSQL a violation would otherwise end the transaction; with `ON CONFLICT (…) DO NOTHING` in the statement
    /// the violation is cheaper.
    pub async fn insert_unique(&mut self, insert: Query<'_, DB, DB::Arguments>) -> Result<Inserted, Fault> {
        match DB::execute_in_savepoint(self, insert).await {
            Ok(0) => Ok(Inserted::Exists { constraint: None }),
            Ok(_) => Ok(Inserted::New),
            Err(error) => match violated_key(&error) {
                Some(constraint) => Ok(Inserted::Exists {
                    constraint: Some(constraint),
                }),
                None => Err(fault(error)),
            },
        }
    }

    /// Updates a row if it still has the version that was read: `UPDATE … SET …, version = version + 1 WHERE id = $1 AND
    /// version = $2`.
    pub async fn update_version(&mut self, update: Query<'_, DB, DB::Arguments>) -> Result<Versioned, Fault> {
        match DB::execute(self, update).await.map_err(fault)? {
            0 => Ok(Versioned::Conflict),
            1 => Ok(Versioned::Updated),
            rows => Err(Fault::fatal(SeveralRows { rows })),
        }
    }
}

/// The violated unique constraint, if an error is of one: its name in PostgreSQL, its columns in SQLite.
pub fn violated_key(error: &Error) -> Option<String> {
    let error = error.as_database_error().filter(|error| error.is_unique_violation())?;
    let columns = || error.message().rsplit(": ").next().unwrap_or_default();
    Some(error.constraint().map_or_else(|| columns().to_owned(), str::to_owned))
}
