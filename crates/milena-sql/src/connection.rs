//! Connections and transactions of either database.

use sqlx::{PgConnection, Postgres, Sqlite, SqliteConnection};

use crate::Dialect;

/// A borrowed connection of either database, usually in a transaction of the caller.
#[derive(Debug)]
pub enum Connection<'a> {
    Postgres(&'a mut PgConnection),
    Sqlite(&'a mut SqliteConnection),
}

impl Connection<'_> {
    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres(_) => Dialect::Postgres,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }
}

impl<'a> From<&'a mut PgConnection> for Connection<'a> {
    fn from(connection: &'a mut PgConnection) -> Self {
        Self::Postgres(connection)
    }
}

impl<'a> From<&'a mut SqliteConnection> for Connection<'a> {
    fn from(connection: &'a mut SqliteConnection) -> Self {
        Self::Sqlite(connection)
    }
}

impl<'a> From<&'a mut sqlx::Transaction<'static, Postgres>> for Connection<'a> {
    fn from(transaction: &'a mut sqlx::Transaction<'static, Postgres>) -> Self {
        Self::Postgres(transaction)
    }
}

impl<'a> From<&'a mut sqlx::Transaction<'static, Sqlite>> for Connection<'a> {
    fn from(transaction: &'a mut sqlx::Transaction<'static, Sqlite>) -> Self {
        Self::Sqlite(transaction)
    }
}

/// A transaction of either database. Dropping it rolls it back.
#[derive(Debug)]
pub enum Transaction {
    Postgres(sqlx::Transaction<'static, Postgres>),
    Sqlite(sqlx::Transaction<'static, Sqlite>),
}

impl Transaction {
    pub fn connection(&mut self) -> Connection<'_> {
        match self {
            Self::Postgres(transaction) => Connection::Postgres(transaction),
            Self::Sqlite(transaction) => Connection::Sqlite(transaction),
        }
    }

    pub async fn commit(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(transaction) => transaction.commit().await,
            Self::Sqlite(transaction) => transaction.commit().await,
        }
    }

    pub async fn rollback(self) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(transaction) => transaction.rollback().await,
            Self::Sqlite(transaction) => transaction.rollback().await,
        }
    }
}
