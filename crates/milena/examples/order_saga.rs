//! An order over four services, each with its own database: orders, inventory, payment and shipping. If the card is
//! declined, the stock is released and the order is cancelled. If a service does not report in time, the steps that are
//! done are compensated; a service that comes late finds its step cancelled and refuses it.
//!
//! `cargo run -p milena --features sql --example order_saga -- 127.0.0.1:9092` with the topics `orders.events`,
//! `inventory.events`, `payment.events` and `shipping.events`.

use std::{error::Error, path::Path};

use milena::{
    app::{
        prelude::*,
        saga::{Saga, SagaFile},
    },
    prelude::*,
    sql::{
        once::SqliteTx,
        outbox,
        relay::Relay,
        saga::{AppSagas as _, Outcome, Participant, SagaEnd, SagaId, Sagas},
        sqlx::{query, raw_sql},
    },
};
use serde::{Deserialize, Serialize};

pub const SERVICES: [&str; 4] = ["orders", "inventory", "payment", "shipping"];

/// Payload of the events. Services after the first take from it what they need.
#[derive(Clone, Serialize, Deserialize)]
pub struct Order {
    pub product: String,
    pub cents: i64,
    pub card: String,
}

/// Inventory: reserves one piece. All of it is undone if there is none.
async fn reserve(Event(order): Event<Order>, SagaId(id): SagaId, mut tx: SqliteTx) -> Result<Outcome, Fault> {
    let taken = query("UPDATE stock SET free = free - 1 WHERE product = $1 AND free > 0")
        .bind(&order.product)
        .execute(&mut *tx)
        .await?;
    if taken.rows_affected() == 0 {
        return Ok(Outcome::failed(format!("{} is out of stock", order.product)));
    }
    let reserved = query("INSERT INTO reservations (order_id, product) VALUES ($1, $2)").bind(id);
    reserved.bind(&order.product).execute(&mut *tx).await?;
    Ok(Outcome::done().json(&order)?)
}

/// The compensation knows only the order: it may be caused by any event.
async fn release(SagaId(id): SagaId, mut tx: SqliteTx) -> Result<(), Fault> {
    let free =
        "UPDATE stock SET free = free + 1 WHERE product = (SELECT product FROM reservations WHERE order_id = $1)";
    query(free).bind(&id).execute(&mut *tx).await?;
    let released = query("DELETE FROM reservations WHERE order_id = $1").bind(&id);
    released.execute(&mut *tx).await?;
    Ok(())
}

/// Payment: charges the card.
async fn charge(Event(order): Event<Order>, SagaId(id): SagaId, mut tx: SqliteTx) -> Result<Outcome, Fault> {
    if order.card == "expired" {
        return Ok(Outcome::failed("card declined"));
    }
    let charged = query("INSERT INTO payments (order_id, cents) VALUES ($1, $2)").bind(id);
    charged.bind(order.cents).execute(&mut *tx).await?;
    Ok(Outcome::done().json(&order)?)
}

async fn refund(SagaId(id): SagaId, mut tx: SqliteTx) -> Result<(), Fault> {
    let refunded = query("DELETE FROM payments WHERE order_id = $1").bind(id);
    refunded.execute(&mut *tx).await?;
    Ok(())
}

/// Shipping: the pivot. A parcel does not come back.
async fn ship(SagaId(id): SagaId, mut tx: SqliteTx) -> Result<(), Fault> {
    let shipped = query("INSERT INTO shipments (order_id) VALUES ($1)").bind(id);
    shipped.execute(&mut *tx).await?;
    Ok(())
}

/// Orders: the end of a saga.
async fn complete(SagaId(id): SagaId, mut tx: SqliteTx) -> Result<(), Fault> {
    let completed = query("UPDATE orders SET status = 'completed' WHERE id = $1").bind(id);
    completed.execute(&mut *tx).await?;
    Ok(())
}

async fn cancel(end: SagaEnd, mut tx: SqliteTx) -> Result<Outcome, Fault> {
    let cancelled = query("UPDATE orders SET status = 'cancelled', reason = $2 WHERE id = $1");
    let cancelled = cancelled.bind(&end.saga_id).bind(&end.reason);
    cancelled.execute(&mut *tx).await?;
    Ok(Outcome::done().json(&serde_json::json!({ "reason": end.reason }))?)
}

/// The definition that all services share.
pub fn order_saga() -> Result<Saga, Box<dyn Error>> {
    let file = SagaFile::parse(include_str!("order_saga.toml"))?;
    Ok(file.get("order").ok_or("no saga `order`")?.clone())
}

/// A service: its part in the saga, on its database. It runs in a process of its own, or in one with others.
pub fn service(name: &str, bootstrap: &str, database: &Database) -> Result<App, Box<dyn Error>> {
    let participant = Participant::new(&order_saga()?, name);
    let participant = match name {
        "orders" => participant.completed(complete).cancelled(cancel),
        "inventory" => participant.step("reserve", reserve).compensation("reserve", release),
        "payment" => participant.step("charge", charge).compensation("charge", refund),
        _ => participant.step("ship", ship),
    };
    let app = App::new(bootstrap).group(name);
    Ok(app.sagas(Sagas::new(database.clone()).participant(participant))?)
}

/// The relay of a service's outbox.
pub fn relay(bootstrap: &str, database: &Database) -> Relay {
    let mut settings = milena::ConfigMap::new();
    settings.set("bootstrap.servers", bootstrap);
    Relay::new(database.clone(), settings)
}

/// The database of a service: its tables beside those of Milena.
pub async fn open(directory: &Path, name: &str) -> Result<Database, Box<dyn Error>> {
    let file = directory.join(format!("{name}.db"));
    let database = Database::connect(&format!("sqlite://{}", file.display())).await?;
    database.migrate().await?;
    let tables = match name {
        "orders" => "CREATE TABLE orders (id text PRIMARY KEY, status text NOT NULL, reason text)",
        "inventory" => {
            "CREATE TABLE stock (product text PRIMARY KEY, free integer NOT NULL);
             INSERT INTO stock VALUES ('book', 10);
             CREATE TABLE reservations (order_id text PRIMARY KEY, product text NOT NULL)"
        }
        "payment" => "CREATE TABLE payments (order_id text PRIMARY KEY, cents integer NOT NULL)",
        _ => "CREATE TABLE shipments (order_id text PRIMARY KEY)",
    };
    if let Database::Sqlite(pool) = &database {
        raw_sql(tables).execute(pool).await?;
    }
    Ok(database)
}

/// Places an order: the row and the event that starts the saga are one transaction.
pub async fn place(orders: &Database, id: &str, order: &Order) -> Result<(), Box<dyn Error>> {
    let mut transaction = orders.begin().await?;
    if let milena::sql::Connection::Sqlite(connection) = transaction.connection() {
        let placed = query("INSERT INTO orders (id, status) VALUES ($1, 'placed')").bind(id);
        placed.execute(connection).await?;
    }
    let event = OutboxEvent::new("orders", id, "OrderCreated").json(order)?;
    outbox::write(transaction.connection(), &event.header("correlation_id", id)).await?;
    transaction.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let directory = std::env::temp_dir().join(format!("order-saga-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let mut running = vec![];
    for name in SERVICES {
        let database = open(&directory, name).await?;
        let relay = relay(&bootstrap, &database).start().await?;
        let app = service(name, &bootstrap, &database)?.start().await?;
        running.push((database, relay, app));
    }
    let orders = running
        .first()
        .map(|(database, ..)| database.clone())
        .ok_or("no service")?;
    for (id, card) in [("1", "good"), ("2", "expired")] {
        let (product, cents, card) = ("book".to_owned(), 1250, card.to_owned());
        place(&orders, id, &Order { product, cents, card }).await?;
    }
    println!("databases are in {}; Ctrl-C to stop", directory.display());
    println!(
        "milena saga list --status completed --status compensated -d sqlite://{}/orders.db",
        directory.display()
    );
    shutdown_signal().await;
    for (_, relay, app) in running {
        app.stop().await?;
        relay.stop().await?;
    }
    Ok(())
}
