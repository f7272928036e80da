//! A crash after the third of five orders is committed. Without an outbox, that order is never announced: it was to be
//! sent after the commit. With an outbox, the announcement is a row of the same transaction, and the relay publishes it
//! after the restart.
//!
//! `cargo run -p milena --features sql --example orders -- 127.0.0.1:9092` with the topic `orders.events`.

use std::error::Error;

use milena::{
    prelude::*,
    sql::{
        Database, Transaction, outbox,
        relay::Relay,
        sqlx::{self, query, query_scalar},
    },
};

const TOPIC: &str = "orders.events";

/// The database of the shop, with the tables of Milena beside its own.
pub async fn open(url: &str) -> Result<Database, Box<dyn Error>> {
    let database = Database::connect(url).await?;
    database.migrate().await?;
    let mut transaction = database.begin().await?;
    execute(&mut transaction, "CREATE TABLE orders (id integer PRIMARY KEY)").await?;
    transaction.commit().await?;
    Ok(database)
}

async fn execute(transaction: &mut Transaction, statement: &'static str) -> Result<(), sqlx::Error> {
    match transaction {
        Transaction::Postgres(transaction) => query(statement).execute(&mut **transaction).await.map(drop),
        Transaction::Sqlite(transaction) => query(statement).execute(&mut **transaction).await.map(drop),
    }
}

/// Inserts the next order and returns its number.
async fn insert(transaction: &mut Transaction) -> Result<i64, sqlx::Error> {
    const INSERT: &str = "INSERT INTO orders SELECT coalesce(max(id), 0) + 1 FROM orders RETURNING id";
    match transaction {
        Transaction::Postgres(transaction) => query_scalar(INSERT).fetch_one(&mut **transaction).await,
        Transaction::Sqlite(transaction) => query_scalar(INSERT).fetch_one(&mut **transaction).await,
    }
}

/// A mistake that loses events: the order is committed, then announced. Returns early where the process crashes.
pub async fn without_outbox(
    database: &Database,
    producer: &Producer,
    orders: usize,
    crash_after: usize,
) -> Result<(), Box<dyn Error>> {
    for placed in 1..=orders {
        let mut transaction = database.begin().await?;
        let order = insert(&mut transaction).await?;
        transaction.commit().await?;
        if placed == crash_after {
            return Ok(());
        }
        let number = order.to_string();
        let record = ProducerRecord::new(TOPIC).key(&number).value(&number);
        producer.send(record).await?;
    }
    Ok(())
}

/// The remedy: order and event are one transaction. The crash comes at the same place, and nothing is lost.
pub async fn with_outbox(database: &Database, orders: usize, crash_after: usize) -> Result<(), Box<dyn Error>> {
    for placed in 1..=orders {
        let mut transaction = database.begin().await?;
        let order = insert(&mut transaction).await?;
        let event = OutboxEvent::new("orders", order.to_string(), "OrderPlaced").payload(order.to_string());
        outbox::write(transaction.connection(), &event).await?;
        transaction.commit().await?;
        if placed == crash_after {
            return Ok(());
        }
    }
    Ok(())
}

/// Publishes the events of the outbox until `stop`, in this process or in another.
pub async fn relay(database: Database, bootstrap: &str, stop: impl Future<Output = ()>) -> Result<(), Box<dyn Error>> {
    let mut settings = milena::ConfigMap::new();
    settings.set("bootstrap.servers", bootstrap);
    Relay::new(database, settings).run_until(stop).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let file = std::env::temp_dir().join(format!("orders-{}.db", std::process::id()));
    let database = open(&format!("sqlite://{}", file.display())).await?;
    let producer = Producer::new(ProducerConfig::builder(&bootstrap))?;
    without_outbox(&database, &producer, 5, 3).await?;
    println!("without an outbox: 3 orders placed, 2 of them announced");
    with_outbox(&database, 5, 3).await?;
    println!("with an outbox: 3 more orders placed; the relay announces them, Ctrl-C to stop");
    relay(database, &bootstrap, milena::app::shutdown_signal()).await
}
