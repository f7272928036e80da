//! Invoices that are written twice, and a handler that writes each once.
//!
//! The order service got no acknowledgement for an order and sent it again, so the topic has it twice. And the first call
//! to the mail service fails after the invoice is written, so the handler is called again. A handler with a plain connection
//! writes an invoice each time. With a [`Tx`](milena::sql::once::Tx) the invoice and the note that the event was handled
//! are one transaction: a failed call leaves nothing, and a duplicate is skipped.
//!
//! `cargo run -p milena --features sql --example double_invoices -- 127.0.0.1:9092` with the topic `orders`.

use std::{
    collections::BTreeSet,
    error::Error,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena::{
    app::prelude::*,
    prelude::*,
    producer::Header,
    sql::{
        Database,
        once::{SqliteTx, fault},
        sqlx::{self, SqlitePool, query, query_as},
    },
};

const INSERT: &str = "INSERT INTO invoices (order_id) VALUES ($1)";

/// A mail service that fails at the first mail to each customer.
#[derive(Clone, Default)]
pub struct Mail(Arc<Mutex<BTreeSet<String>>>);

impl Mail {
    async fn send(&self, order: &str) -> Result<(), Fault> {
        let is_first = self.0.lock().is_ok_and(|mut known| known.insert(order.to_owned()));
        if is_first {
            Err(Fault::retry("the mail service is down"))
        } else {
            Ok(())
        }
    }
}

/// A mistake that doubles invoices: the insert is committed at once, whatever happens afterwards.
async fn with_connection(
    Value(order): Value<String>,
    State(pool): State<SqlitePool>,
    State(mail): State<Mail>,
) -> Result<(), Fault> {
    query(INSERT).bind(&order).execute(&pool).await.map_err(fault)?;
    mail.send(&order).await
}

/// The remedy: the insert is committed with the note that the event was handled.
async fn with_tx(Value(order): Value<String>, mut tx: SqliteTx, State(mail): State<Mail>) -> Result<(), Fault> {
    query(INSERT).bind(&order).execute(&mut *tx).await.map_err(fault)?;
    mail.send(&order).await
}

/// The database of the shop, with the tables of Milena beside its own.
pub async fn open(url: &str) -> Result<(Database, SqlitePool), Box<dyn Error>> {
    let database = Database::connect(url).await?;
    database.migrate().await?;
    let Database::Sqlite(pool) = &database else {
        return Err("this example needs SQLite".into());
    };
    let pool = pool.clone();
    query("CREATE TABLE invoices (order_id text NOT NULL)")
        .execute(&pool)
        .await?;
    Ok((database, pool))
}

/// Sends three orders. The second one has no acknowledgement and is sent again, with the same id.
pub async fn place_orders(bootstrap: &str) -> Result<(), Box<dyn Error>> {
    let producer = Producer::new(ProducerConfig::builder(bootstrap))?;
    for (order, id) in [("1", "e1"), ("2", "e2"), ("2", "e2"), ("3", "e3")] {
        let headers = [Header {
            key: b"event_id",
            value: Some(id.as_bytes()),
        }];
        let record = ProducerRecord::new("orders").key(order).value(order).headers(&headers);
        producer.send(record).await?;
    }
    Ok(())
}

/// An application that doubles invoices.
pub fn doubling(bootstrap: &str, pool: &SqlitePool) -> App {
    let app = App::new(bootstrap).group("doubling");
    let app = app.state(pool.clone()).state(Mail::default());
    app.on("orders", with_connection, quick)
}

/// An application that writes each invoice once.
pub fn once(bootstrap: &str, database: &Database) -> App {
    let app = App::new(bootstrap).group("once");
    let app = app.state(database.clone()).state(Mail::default());
    app.on("orders", with_tx, quick)
}

fn quick(policy: Policy) -> Policy {
    let (first, max) = (Duration::from_millis(10), Duration::from_millis(100));
    policy.retry(Retry::exponential(first, max))
}

/// Runs an application until its handler is done with the four records.
pub async fn run(app: App) -> Result<(), Box<dyn Error>> {
    let running = app.start().await?;
    let done = || {
        running
            .counts()
            .iter()
            .map(|counts| counts.success + counts.duplicates)
            .sum::<u64>()
    };
    while done() < 4 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.stop().await?;
    Ok(())
}

/// Orders with the number of their invoices.
pub async fn invoices(pool: &SqlitePool) -> Result<Vec<(String, i64)>, sqlx::Error> {
    let counted = "SELECT order_id, count(*) FROM invoices GROUP BY order_id ORDER BY order_id";
    query_as(counted).fetch_all(pool).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    place_orders(&bootstrap).await?;
    let file = |name: &str| std::env::temp_dir().join(format!("{name}-{}.db", std::process::id()));
    let (_, pool) = open(&format!("sqlite://{}", file("doubling").display())).await?;
    run(doubling(&bootstrap, &pool)).await?;
    println!(
        "orders and their invoices, with a plain connection: {:?}",
        invoices(&pool).await?
    );
    let (database, pool) = open(&format!("sqlite://{}", file("once").display())).await?;
    run(once(&bootstrap, &database)).await?;
    println!("with a Tx: {:?}", invoices(&pool).await?);
    Ok(())
}
