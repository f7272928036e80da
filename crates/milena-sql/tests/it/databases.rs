//! Databases of the tests: a PostgreSQL server for all of them, and files of SQLite.

use std::sync::LazyLock;

use milena_sql::Database;
use milena_test::PostgresServer;
use tempfile::TempDir;

static SERVER: LazyLock<PostgresServer> = LazyLock::new(PostgresServer::start);

/// Port of the PostgreSQL server.
pub(crate) fn server_port() -> u16 {
    SERVER.port()
}

/// An empty database of a test.
pub(crate) struct Home {
    pub(crate) url: String,
    _directory: Option<TempDir>,
}

impl Home {
    pub(crate) fn postgres() -> Self {
        Self {
            url: SERVER.create_database(),
            _directory: None,
        }
    }

    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            url: format!("sqlite://{}", directory.path().join("app.db").display()),
            _directory: Some(directory),
        }
    }

    pub(crate) fn both() -> [Self; 2] {
        [Self::postgres(), Self::sqlite()]
    }

    pub(crate) async fn connect(&self) -> Database {
        Database::connect(&self.url).await.unwrap()
    }

    /// Connects and creates the tables.
    #[allow(dead_code, reason = "tests of the tables themselves create them")]
    pub(crate) async fn migrated(&self) -> Database {
        let database = self.connect().await;
        database.migrate().await.unwrap();
        database
    }
}
