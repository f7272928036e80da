//! Throughput of an idempotent handler, compared to the same handler with a plain transaction.
//!
//! `cargo bench -p milena-sql --bench once` measures with `fsync=off`, as tests have it; with `-- fsync` as PostgreSQL
//! has it by default.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that meets the unexpected should stop there"
)]

use std::{
    env,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use milena_app::prelude::*;
use milena_sql::{Database, once::PgTx};
use milena_test::{PostgresServer, TestBroker, TestRecord};
use sqlx::{PgConnection, PgPool};

const PARTITIONS: i32 = 8;
const RECORDS: u64 = 24_000;
const ROUNDS: u32 = 5;

fn main() {
    let is_synced = env::args().any(|argument| argument == "fsync");
    let server = if is_synced {
        PostgresServer::start_synced()
    } else {
        PostgresServer::start()
    };
    let fsync = server.psql("postgres", "SHOW fsync");
    let broker = TestBroker::start();
    broker.create_topic("orders", PARTITIONS);
    for partition in 0..PARTITIONS {
        let records = (0..RECORDS / PARTITIONS as u64)
            .map(|number| TestRecord::new([b'x'; 100]).key(format!("key {}", number * 7919 % 1_000)));
        broker.produce("orders", partition, records);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let database = runtime.block_on(set_up(&server));
    println!("PostgreSQL with fsync={fsync}, {RECORDS} records");
    let (mut plains, mut onces) = (vec![], vec![]);
    for round in 0..ROUNDS {
        let counter = Arc::new(Counter::default());
        let app = app(&broker, &database, &counter, format!("plain-{round}"));
        let plain = runtime.block_on(timed(
            app.on("orders", with_plain_transaction, |policy| policy),
            &counter,
        ));
        let counter = Arc::new(Counter::default());
        let app = self::app(&broker, &database, &counter, format!("once-{round}"));
        let once = runtime.block_on(timed(app.on("orders", with_tx, |policy| policy), &counter));
        println!(
            "round {round}: plain transaction {plain:.0}/s, Tx {once:.0}/s, {:.0} %",
            once / plain * 100.0
        );
        plains.push(plain);
        onces.push(once);
    }
    let (plain, once) = (median(plains), median(onces));
    println!(
        "median: plain transaction {plain:.0}/s, Tx {once:.0}/s, {:.0} %",
        once / plain * 100.0
    );
}

async fn set_up(server: &PostgresServer) -> Database {
    let database = Database::connect(&server.create_database()).await.unwrap();
    database.migrate().await.unwrap();
    let Database::Postgres(pool) = &database else {
        unreachable!("the URL is of PostgreSQL")
    };
    sqlx::query("CREATE TABLE invoices (id bigserial PRIMARY KEY, customer text NOT NULL, cents bigint NOT NULL)")
        .execute(pool)
        .await
        .unwrap();
    database
}

fn app(broker: &TestBroker, database: &Database, counter: &Arc<Counter>, group: String) -> App {
    let Database::Postgres(pool) = database else {
        unreachable!("the URL is of PostgreSQL")
    };
    App::new(broker.bootstrap_servers())
        .group(group)
        .state(pool.clone())
        .state(Arc::clone(counter))
}

async fn effect(connection: &mut PgConnection, customer: &str) -> Result<(), sqlx::Error> {
    let insert = sqlx::query("INSERT INTO invoices (customer, cents) VALUES ($1, $2)").bind(customer);
    insert.bind(1_250_i64).execute(connection).await.map(drop)
}

async fn with_plain_transaction(
    Key(customer): Key<String>,
    State(pool): State<PgPool>,
    State(counter): State<Arc<Counter>>,
) -> Result<(), Fault> {
    let mut transaction = pool.begin().await?;
    effect(&mut transaction, &customer).await?;
    transaction.commit().await?;
    counter.add();
    Ok(())
}

async fn with_tx(Key(customer): Key<String>, mut tx: PgTx, State(counter): State<Arc<Counter>>) -> Result<(), Fault> {
    effect(&mut tx, &customer).await?;
    counter.add();
    Ok(())
}

/// Counts records, with the times of the first and the last one.
#[derive(Default)]
struct Counter {
    seen: AtomicU64,
    first: OnceLock<Instant>,
    last: OnceLock<Instant>,
}

impl Counter {
    fn add(&self) {
        self.first.get_or_init(Instant::now);
        if self.seen.fetch_add(1, Ordering::Relaxed) + 1 >= RECORDS {
            self.last.get_or_init(Instant::now);
        }
    }
}

async fn timed(app: App, counter: &Counter) -> f64 {
    let running = app.start().await.unwrap();
    while counter.last.get().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.stop().await.unwrap();
    let (first, last) = (counter.first.get().unwrap(), counter.last.get().unwrap());
    RECORDS as f64 / last.duration_since(*first).as_secs_f64()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}
