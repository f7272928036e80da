//! A handler with an effect that can be counted, and a script of its failures.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use milena_app::prelude::*;
use milena_sql::{
    Database,
    once::{Tx, TxDatabase, fault},
};
use sqlx::{Postgres, Sqlite};
use tokio::sync::Semaphore;

use crate::databases::Home;

/// Behaviour of a call after its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Fail,
    Poison,
    Panic,
    /// Waits until the script lets it go on.
    Wait,
    /// Waits, then fails.
    WaitAndFail,
}

/// Steps of the calls of each value, in order; calls without one succeed.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Shared>);

struct Shared {
    steps: Mutex<BTreeMap<String, VecDeque<Step>>>,
    gate: Semaphore,
    waiting: AtomicU32,
    calls: AtomicU32,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            steps: Mutex::default(),
            gate: Semaphore::new(0),
            waiting: AtomicU32::new(0),
            calls: AtomicU32::new(0),
        }
    }
}

impl Script {
    pub(crate) fn with(self, value: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        let mut all = self.0.steps.lock().unwrap();
        all.entry(value.to_owned()).or_default().extend(steps);
        drop(all);
        self
    }

    /// Number of calls of the handler so far.
    pub(crate) fn calls(&self) -> u32 {
        self.0.calls.load(Ordering::SeqCst)
    }

    /// Waits until a call waits.
    pub(crate) async fn until_waiting(&self) {
        until("a call waits", || self.0.waiting.load(Ordering::SeqCst) > 0).await;
    }

    /// Lets a waiting call go on.
    pub(crate) fn go_on(&self) {
        self.0.gate.add_permits(1);
    }

    pub(crate) async fn next(&self, value: &str) -> Result<(), Fault> {
        self.0.calls.fetch_add(1, Ordering::SeqCst);
        let step = self
            .0
            .steps
            .lock()
            .unwrap()
            .get_mut(value)
            .and_then(VecDeque::pop_front);
        match step {
            None => Ok(()),
            Some(Step::Fail) => Err(Fault::retry("as the script says")),
            Some(Step::Poison) => Err(Fault::poison("as the script says")),
            Some(Step::Panic) => panic!("as the script says"),
            Some(step @ (Step::Wait | Step::WaitAndFail)) => {
                self.0.waiting.fetch_add(1, Ordering::SeqCst);
                self.0.gate.acquire().await.unwrap().forget();
                self.0.waiting.fetch_sub(1, Ordering::SeqCst);
                if step == Step::WaitAndFail {
                    return Err(Fault::retry("as the script says"));
                }
                Ok(())
            }
        }
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), waiting).await;
    waited.unwrap_or_else(|_| panic!("{what}: not within 60 s"));
}

/// A database with a table of effects.
pub(crate) trait Shop: TxDatabase {
    fn home() -> Home;

    fn add(connection: &mut Self::Connection, name: &str) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// Waits until a transaction waits for another, if the database shows it.
    fn until_blocked(database: &Database) -> impl Future<Output = ()> + Send {
        let _ = database;
        async {}
    }
}

const ADD: &str = "INSERT INTO effects (name) VALUES ($1)";

impl Shop for Postgres {
    fn home() -> Home {
        Home::postgres()
    }

    async fn add(connection: &mut Self::Connection, name: &str) -> Result<(), sqlx::Error> {
        sqlx::query(ADD).bind(name).execute(connection).await.map(drop)
    }

    async fn until_blocked(database: &Database) {
        let query = "SELECT 'yes' FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE NOT granted AND datname = current_database()";
        while texts(database, query).await.is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Shop for Sqlite {
    fn home() -> Home {
        Home::sqlite()
    }

    async fn add(connection: &mut Self::Connection, name: &str) -> Result<(), sqlx::Error> {
        sqlx::query(ADD).bind(name).execute(connection).await.map(drop)
    }
}

/// The handler: an effect for each call that commits.
pub(crate) async fn effect<DB: Shop>(
    Value(name): Value<String>,
    mut tx: Tx<DB>,
    State(script): State<Script>,
) -> Result<(), Fault> {
    DB::add(&mut tx, &name).await.map_err(fault)?;
    script.next(&name).await
}

/// A database with the tables.
pub(crate) async fn opened(home: &Home) -> Database {
    let database = home.migrated().await;
    execute(&database, "CREATE TABLE effects (name text NOT NULL)").await;
    database
}

pub(crate) async fn execute(database: &Database, statement: &'static str) {
    match database {
        Database::Postgres(pool) => sqlx::query(statement).execute(pool).await.map(drop),
        Database::Sqlite(pool) => sqlx::query(statement).execute(pool).await.map(drop),
    }
    .unwrap();
}

pub(crate) async fn texts(database: &Database, query: &'static str) -> Vec<String> {
    match database {
        Database::Postgres(pool) => sqlx::query_scalar(query).fetch_all(pool).await,
        Database::Sqlite(pool) => sqlx::query_scalar(query).fetch_all(pool).await,
    }
    .unwrap()
}

/// The effects that were committed, sorted.
pub(crate) async fn effects(database: &Database) -> Vec<String> {
    texts(database, "SELECT name FROM effects ORDER BY name").await
}

pub(crate) async fn noted(database: &Database) -> Vec<String> {
    texts(
        database,
        "SELECT event_id FROM milena_processed_events ORDER BY event_id",
    )
    .await
}

pub(crate) fn app<DB: Shop>(database: &Database, script: &Script, policy: impl FnOnce(Policy) -> Policy) -> App {
    App::new("")
        .group("billing")
        .state(database.clone())
        .state(script.clone())
        .on("orders", effect::<DB>, policy)
}
