//! An application that writes each record into a table, and what the table has.

use std::{future::Future, sync::Arc, time::Duration};

use milena_app::prelude::*;
use milena_client::consumer::TopicPartition;
use milena_sql::{
    Connection, Database,
    offsets::SqlOffsets,
    once::{Tx, TxDatabase, fault},
    sqlx::{self, Postgres, Row, Sqlite},
};
use milena_test::TestBroker;
use tokio::sync::Semaphore;

use crate::databases::Home;

pub(super) const GROUP: &str = "billing";
pub(super) const TOPIC: &str = "orders";
const TIMEOUT: Duration = Duration::from_secs(60);

/// A broker, and a database with the table `effects`.
pub(super) struct Rig {
    pub(super) broker: TestBroker,
    pub(super) database: Database,
    home: Home,
}

/// Lets the handler of the value `wait` go on.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) arrived: Arc<Semaphore>,
    pub(super) open: Arc<Semaphore>,
}

impl Gate {
    pub(super) fn new() -> Self {
        Self {
            arrived: Arc::new(Semaphore::new(0)),
            open: Arc::new(Semaphore::new(0)),
        }
    }
}

/// Writes a record into the table. It fails for good with `poison`, and once with `retry`.
async fn handle<DB: TxDatabase>(
    Value(value): Value<String>,
    Key(key): Key<Option<String>>,
    State(gate): State<Gate>,
    cx: Cx,
    mut tx: Tx<DB>,
) -> Result<Done, Fault> {
    insert(tx.connection(), &key.unwrap_or_default(), &value)
        .await
        .map_err(fault)?;
    match value.as_str() {
        "wait" => {
            gate.arrived.add_permits(1);
            gate.open.acquire().await?.forget();
        }
        "poison" => return Err(Fault::poison("poison")),
        "retry" if cx.attempt() == 1 => return Err(Fault::retry("not now")),
        "skip" => return Ok(Done::Skip("nothing to do".into())),
        _ => {}
    }
    Ok(Done::Ok)
}

const INSERT: &str = "INSERT INTO effects (record_key, value) VALUES ($1, $2)";

async fn insert(connection: Connection<'_>, key: &str, value: &str) -> Result<(), sqlx::Error> {
    match connection {
        Connection::Postgres(connection) => {
            sqlx::query(INSERT).bind(key).bind(value).execute(connection).await?;
        }
        Connection::Sqlite(connection) => {
            sqlx::query(INSERT).bind(key).bind(value).execute(connection).await?;
        }
    }
    Ok(())
}

impl Rig {
    pub(super) async fn new(home: Home, partitions: i32) -> Self {
        let database = home.migrated().await;
        let id = match &database {
            Database::Postgres(_) => "id bigserial PRIMARY KEY",
            Database::Sqlite(_) => "id integer PRIMARY KEY AUTOINCREMENT",
        };
        let rig = Self {
            broker: TestBroker::start(),
            database,
            home,
        };
        rig.execute(&format!(
            "CREATE TABLE effects ({id}, record_key text NOT NULL, value text NOT NULL)"
        ))
        .await;
        rig.broker.create_topic(TOPIC, partitions);
        rig
    }

    pub(super) fn url(&self) -> &str {
        &self.home.url
    }

    pub(super) fn app(&self) -> App {
        app(&self.broker.bootstrap_servers(), &self.database)
    }

    /// The application with its handler.
    pub(super) fn orders(&self, app: App, policy: impl FnOnce(Policy) -> Policy) -> App {
        orders(&self.database, app, policy)
    }

    pub(super) async fn start(&self, order: Order) -> Running {
        let app = self.orders(self.app(), |policy| policy.order(order));
        app.start().await.unwrap()
    }

    pub(super) async fn execute(&self, sql: &str) {
        let sql = sqlx::AssertSqlSafe(sql.to_owned());
        match &self.database {
            Database::Postgres(pool) => drop(sqlx::query(sql).execute(pool).await.unwrap()),
            Database::Sqlite(pool) => drop(sqlx::query(sql).execute(pool).await.unwrap()),
        }
    }

    /// Keys and values of all effects, in the order in which they were written.
    pub(super) async fn effects(&self) -> Vec<(String, String)> {
        let sql = "SELECT record_key, value FROM effects ORDER BY id";
        match &self.database {
            Database::Postgres(pool) => {
                let rows = sqlx::query(sql).fetch_all(pool).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
            Database::Sqlite(pool) => {
                let rows = sqlx::query(sql).fetch_all(pool).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }

    pub(super) async fn values(&self) -> Vec<String> {
        self.effects().await.into_iter().map(|(_, value)| value).collect()
    }

    /// Waits until there are so many effects.
    pub(super) async fn effects_are(&self, count: usize) {
        within(&format!("{count} effects"), async {
            while self.effects().await.len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// The stored offset of a partition.
    pub(super) async fn stored(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let sql = "SELECT next_offset FROM milena_offsets WHERE consumer_group = $1 AND topic = $2 AND partition = $3";
        let stored: Option<Option<i64>> = match &self.database {
            Database::Postgres(pool) => {
                let query = sqlx::query_scalar(sql).bind(group).bind(topic).bind(partition);
                query.fetch_optional(pool).await.unwrap()
            }
            Database::Sqlite(pool) => {
                let query = sqlx::query_scalar(sql).bind(group).bind(topic).bind(partition);
                query.fetch_optional(pool).await.unwrap()
            }
        };
        stored.flatten()
    }

    /// Waits until this offset is stored.
    pub(super) async fn stored_is(&self, partition: i32, offset: i64) {
        within(&format!("the stored offset {offset} of {partition}"), async {
            while self.stored(GROUP, TOPIC, partition).await != Some(offset) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    }

    /// Ends an application without a drain, and lets the group know at once.
    pub(super) fn kill(&self, running: Running) {
        running.kill();
        self.forget_members();
    }

    pub(super) fn forget_members(&self) {
        for member in self.broker.group_members(GROUP) {
            self.broker.remove_member(GROUP, &member.member_id);
        }
    }
}

pub(super) fn app(bootstrap: &str, database: &Database) -> App {
    App::new(bootstrap)
        .group(GROUP)
        .consumer("heartbeat.interval.ms", 50)
        .consumer("session.timeout.ms", 6000)
        .producer("linger.ms", 0)
        .state(database.clone())
        .state(Gate::new())
        .offset_store(SqlOffsets::new(database.clone()))
}

pub(super) fn orders(database: &Database, app: App, policy: impl FnOnce(Policy) -> Policy) -> App {
    match database {
        Database::Postgres(_) => app.stored_offsets(TOPIC, handle::<Postgres>, policy),
        Database::Sqlite(_) => app.stored_offsets(TOPIC, handle::<Sqlite>, policy),
    }
}

pub(super) fn partition(number: i32) -> TopicPartition {
    TopicPartition::new(TOPIC, number)
}

/// Waits for a future, up to the timeout.
pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(TIMEOUT, future).await;
    waited.unwrap_or_else(|_| panic!("{what} did not happen within {TIMEOUT:?}"))
}

/// Waits until a condition holds.
pub(super) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    within(what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}
