//! The databases of the services, and the programs of others that read them.

use std::{process::Command, sync::Mutex, time::Duration};

use clap::ValueEnum;
use milena_test::PostgresServer;

use crate::{programs::run as run_program, service::SERVICES};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DatabaseKind {
    Postgres,
    Sqlite,
}

/// Tables of every service. `effects` only grows: it shows what happened, in its order.
const TABLES: &str = "CREATE TABLE orders (id text PRIMARY KEY, status text NOT NULL);
    CREATE TABLE stock (free integer NOT NULL);
    INSERT INTO stock VALUES (1000000);
    CREATE TABLE effects (n SERIAL_KEY, id text NOT NULL, kind text NOT NULL);";

/// A database for each service.
pub enum Databases {
    Postgres {
        server: Mutex<PostgresServer>,
        urls: Vec<String>,
    },
    Sqlite {
        directory: tempfile::TempDir,
    },
}

impl Databases {
    pub fn start(kind: DatabaseKind) -> Self {
        let databases = match kind {
            DatabaseKind::Postgres => {
                let server = PostgresServer::start();
                Self::Postgres {
                    urls: SERVICES.iter().map(|_| server.create_database()).collect(),
                    server: Mutex::new(server),
                }
            }
            DatabaseKind::Sqlite => Self::Sqlite {
                directory: tempfile::tempdir().unwrap(),
            },
        };
        for service in SERVICES {
            let mut init = Command::new(env!("CARGO_BIN_EXE_milena"));
            run_program(init.args(["sql", "init", "-d", &databases.url(service)]), "");
            let key = match kind {
                DatabaseKind::Postgres => "serial PRIMARY KEY",
                DatabaseKind::Sqlite => "integer PRIMARY KEY AUTOINCREMENT",
            };
            databases.query(service, &TABLES.replace("SERIAL_KEY", key));
        }
        databases
    }

    pub fn url(&self, service: &str) -> String {
        match self {
            Self::Postgres { urls, .. } => {
                let place = SERVICES.iter().position(|name| *name == service).unwrap();
                urls[place].clone()
            }
            Self::Sqlite { directory } => format!("sqlite://{}", directory.path().join(service).display()),
        }
    }

    /// Output of `psql` or `sqlite3`, with `|` between columns.
    pub fn query(&self, service: &str, statements: &str) -> String {
        match self {
            Self::Postgres { server, .. } => server.lock().unwrap().psql(&self.url(service), statements),
            Self::Sqlite { directory } => {
                let mut program = Command::new("sqlite3");
                let file = directory.path().join(service);
                let output = run_program(program.args(["-cmd", ".timeout 20000"]).arg(file).arg(statements), "");
                output.trim_end().to_owned()
            }
        }
    }

    /// Kills the server and starts it again after a time. A file has no server.
    pub fn crash(&self, gap: Duration) -> bool {
        let Self::Postgres { server, .. } = self else {
            return false;
        };
        let mut server = server.lock().unwrap();
        server.kill();
        std::thread::sleep(gap);
        server.restart();
        true
    }
}
