//! Four services with a database each, on one broker.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use milena_app::{
    App, Clock, Running,
    handler::{Event, Fault, State},
    saga::{Saga, Step},
};
use milena_sql::{
    Connection, Database, Dialect,
    once::{Tx, TxDatabase},
    saga::{AppSagas as _, Outcome, Participant, SagaEnd, SagaId, Sagas, store},
};
use milena_test::{TestBroker, TestRecord};
use sqlx::{Postgres, Sqlite};
use tokio::task::JoinHandle;

use crate::databases::Home;

const TIMEOUT: Duration = Duration::from_secs(60);
const SERVICES: [&str; 4] = ["orders", "inventory", "payment", "shipping"];

/// reserve → charge → ship, which is the pivot → notify, which is retriable.
pub(super) fn order_saga() -> Saga {
    let minute = Duration::from_secs(60);
    Saga::named("order")
        .owner("orders", "orders.events")
        .participant("inventory", "inventory.events")
        .participant("payment", "payment.events")
        .participant("shipping", "shipping.events")
        .starts("OrderCreated")
        .completed("OrderCompleted")
        .cancelled("OrderCancelled")
        .cancel_on("OrderCancelRequested")
        .step(
            Step::compensatable("reserve")
                .by("inventory")
                .on("OrderCreated")
                .done("InventoryReserved")
                .failed("InventoryRejected")
                .compensated("InventoryReleased")
                .timeout(minute),
        )
        .step(
            Step::compensatable("charge")
                .by("payment")
                .on("InventoryReserved")
                .done("PaymentProcessed")
                .failed("PaymentFailed")
                .compensated("PaymentRefunded")
                .timeout(minute),
        )
        .step(
            Step::pivot("ship")
                .by("shipping")
                .on("PaymentProcessed")
                .done("ShipmentCreated")
                .failed("ShipmentFailed")
                .timeout(minute),
        )
        .build()
        .unwrap()
}

/// Switches of the services.
#[derive(Clone, Default)]
pub(super) struct Switches {
    /// The payment service cannot reach its bank.
    pub(super) is_bank_down: Arc<AtomicBool>,
}

#[derive(serde::Deserialize)]
struct Order {
    #[serde(default)]
    card: String,
    #[serde(default)]
    amount: i64,
}

async fn execute(connection: Connection<'_>, sql: &'static str, id: &str) -> Result<u64, sqlx::Error> {
    Ok(match connection {
        Connection::Postgres(connection) => sqlx::query(sql).bind(id).execute(connection).await?.rows_affected(),
        Connection::Sqlite(connection) => sqlx::query(sql).bind(id).execute(connection).await?.rows_affected(),
    })
}

async fn reserve<D: TxDatabase>(
    Event(order): Event<Order>,
    SagaId(id): SagaId,
    mut tx: Tx<D>,
) -> Result<Outcome, Fault> {
    // Written before the function finds out that there is no stock: it must be undone.
    execute(tx.connection(), "INSERT INTO reservations (id) VALUES ($1)", &id).await?;
    let taken = execute(
        tx.connection(),
        "UPDATE stock SET free = free - 1 WHERE free > 0 AND $1 <> ''",
        &id,
    )
    .await?;
    if taken == 0 {
        return Ok(Outcome::failed("out of stock"));
    }
    Ok(Outcome::done().json(&serde_json::json!({ "card": order.card, "amount": order.amount }))?)
}

async fn release<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<(), Fault> {
    execute(tx.connection(), "DELETE FROM reservations WHERE id = $1", &id).await?;
    execute(tx.connection(), "UPDATE stock SET free = free + 1 WHERE $1 <> ''", &id).await?;
    Ok(())
}

async fn charge<D: TxDatabase>(
    Event(order): Event<Order>,
    SagaId(id): SagaId,
    State(switches): State<Switches>,
    mut tx: Tx<D>,
) -> Result<Outcome, Fault> {
    if switches.is_bank_down.load(Ordering::SeqCst) {
        return Err(Fault::retry("the bank does not respond"));
    }
    if order.card == "declined" {
        return Ok(Outcome::failed("card declined"));
    }
    execute(
        tx.connection(),
        "INSERT INTO charges (id, kind) VALUES ($1, 'charge')",
        &id,
    )
    .await?;
    Ok(Outcome::done())
}

async fn refund<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<(), Fault> {
    execute(
        tx.connection(),
        "INSERT INTO charges (id, kind) VALUES ($1, 'refund')",
        &id,
    )
    .await?;
    Ok(())
}

async fn ship<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<(), Fault> {
    execute(tx.connection(), "INSERT INTO shipments (id) VALUES ($1)", &id).await?;
    Ok(())
}

async fn completed<D: TxDatabase>(SagaId(id): SagaId, mut tx: Tx<D>) -> Result<(), Fault> {
    execute(
        tx.connection(),
        "INSERT INTO orders (id, status) VALUES ($1, 'completed')",
        &id,
    )
    .await?;
    Ok(())
}

async fn cancelled<D: TxDatabase>(end: SagaEnd, mut tx: Tx<D>) -> Result<Outcome, Fault> {
    let insert = "INSERT INTO orders (id, status) VALUES ($1, 'cancelled')";
    execute(tx.connection(), insert, &end.saga_id).await?;
    Ok(Outcome::done().json(&serde_json::json!({ "reason": end.reason }))?)
}

fn participant<D: TxDatabase>(service: &str) -> Participant {
    let participant = Participant::new(&order_saga(), service);
    match service {
        "orders" => participant.completed(completed::<D>).cancelled(cancelled::<D>),
        "inventory" => participant
            .step("reserve", reserve::<D>)
            .compensation("reserve", release::<D>),
        "payment" => participant
            .step("charge", charge::<D>)
            .compensation("charge", refund::<D>),
        _ => participant.step("ship", ship::<D>),
    }
}

/// A service: its database and its running instances.
pub(super) struct Service {
    name: &'static str,
    pub(super) database: Database,
    pub(super) sagas: Sagas,
    pub(super) instances: Vec<Running>,
    relay: JoinHandle<()>,
    _home: Home,
}

impl Drop for Service {
    fn drop(&mut self) {
        self.relay.abort();
    }
}

/// All services, not started.
pub(super) struct Shop {
    pub(super) broker: Arc<TestBroker>,
    pub(super) clock: Clock,
    pub(super) switches: Switches,
    pub(super) services: Vec<Service>,
}

impl Shop {
    /// Services whose databases are of a kind, and whose clock stands still.
    pub(super) async fn new(dialect: Dialect) -> Self {
        let broker = Arc::new(TestBroker::start());
        for service in SERVICES {
            broker.create_topic(&format!("{service}.events"), 2);
        }
        let mut services = vec![];
        for name in SERVICES {
            let home = match dialect {
                Dialect::Postgres => Home::postgres(),
                Dialect::Sqlite => Home::sqlite(),
            };
            let database = home.migrated().await;
            create_tables(&database).await;
            let participant = match dialect {
                Dialect::Postgres => participant::<Postgres>(name),
                Dialect::Sqlite => participant::<Sqlite>(name),
            };
            let sagas = Sagas::new(database.clone()).participant(participant);
            services.push(Service {
                name,
                relay: tokio::spawn(relay(database.clone(), Arc::clone(&broker))),
                database,
                sagas,
                instances: vec![],
                _home: home,
            });
        }
        Self {
            broker,
            clock: Clock::manual(),
            switches: Switches::default(),
            services,
        }
    }

    pub(super) async fn started(dialect: Dialect) -> Self {
        let mut shop = Self::new(dialect).await;
        for service in SERVICES {
            shop.start(service).await;
        }
        shop
    }

    pub(super) fn app(&self, name: &str) -> App {
        let service = self.service(name);
        App::new(self.broker.bootstrap_servers())
            .group(name)
            .state(self.switches.clone())
            .clock(self.clock.clone())
            .consumer("heartbeat.interval.ms", 50)
            .consumer("session.timeout.ms", 6000)
            .sagas(service.sagas.clone())
            .unwrap()
    }

    /// Starts one more instance of a service.
    pub(super) async fn start(&mut self, name: &str) {
        let running = self.app(name).start().await.unwrap();
        self.service_mut(name).instances.push(running);
    }

    /// Ends all instances of a service as in a crash.
    pub(super) fn kill(&mut self, name: &str) {
        self.service_mut(name).instances.drain(..).for_each(Running::kill);
    }

    pub(super) fn service(&self, name: &str) -> &Service {
        self.services.iter().find(|service| service.name == name).unwrap()
    }

    fn service_mut(&mut self, name: &str) -> &mut Service {
        self.services.iter_mut().find(|service| service.name == name).unwrap()
    }

    /// Writes an event of a service, as its outbox would.
    pub(super) fn publish(&self, service: &str, event_type: &str, saga_id: &str, payload: &str) {
        let id = format!("{event_type}-{saga_id}");
        let record = event(event_type, saga_id, payload).header("id", id);
        self.publish_record(service, saga_id, record);
    }

    pub(super) fn publish_record(&self, service: &str, saga_id: &str, record: TestRecord) {
        self.broker
            .produce(&format!("{service}.events"), partition(saga_id), [record]);
    }

    pub(super) fn order(&self, saga_id: &str, card: &str) {
        self.publish(
            "orders",
            "OrderCreated",
            saga_id,
            &format!(r#"{{"card":"{card}","amount":7}}"#),
        );
    }

    /// Status of a saga in the database of a service.
    pub(super) async fn status(&self, service: &str, saga_id: &str) -> Option<String> {
        self.row(service, saga_id).await.map(|row| row.status)
    }

    pub(super) async fn row(&self, service: &str, saga_id: &str) -> Option<store::SagaRow> {
        let mut transaction = self.service(service).database.begin_read().await.unwrap();
        let found = store::find(transaction.connection(), saga_id).await.unwrap();
        found.into_iter().next()
    }

    pub(super) async fn trail(&self, service: &str, saga_id: &str) -> Vec<store::AuditLine> {
        let key = self.row(service, saga_id).await.unwrap().key;
        let mut transaction = self.service(service).database.begin_read().await.unwrap();
        store::trail(transaction.connection(), &key).await.unwrap()
    }

    pub(super) async fn wait_for(&self, service: &str, saga_id: &str, status: &str) {
        let waiting = async {
            while self.status(service, saga_id).await.as_deref() != Some(status) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(TIMEOUT, waiting).await.is_err() {
            let row = self.row(service, saga_id).await;
            panic!("saga {saga_id} of {service} is not {status}: {row:?}");
        }
    }

    pub(super) async fn count(&self, service: &str, sql: &'static str) -> i64 {
        count(&self.service(service).database, sql).await
    }

    pub(super) async fn wait_for_count(&self, service: &str, sql: &'static str, expected: i64) {
        let waiting = async {
            while self.count(service, sql).await != expected {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        if tokio::time::timeout(TIMEOUT, waiting).await.is_err() {
            panic!("{sql}: {}, not {expected}", self.count(service, sql).await);
        }
    }

    /// Each cancelled saga has left no effect, and each completed one all of them.
    pub(super) async fn assert_balance(&self, completed: i64, cancelled: i64) {
        assert_eq!(
            self.count("orders", "SELECT count(*) FROM orders WHERE status = 'completed'")
                .await,
            completed
        );
        assert_eq!(
            self.count("orders", "SELECT count(*) FROM orders WHERE status = 'cancelled'")
                .await,
            cancelled
        );
        assert_eq!(
            self.count("inventory", "SELECT count(*) FROM reservations").await,
            completed
        );
        assert_eq!(self.count("inventory", "SELECT free FROM stock").await, 100 - completed);
        let charged = self
            .count("payment", "SELECT count(*) FROM charges WHERE kind = 'charge'")
            .await;
        let refunded = self
            .count("payment", "SELECT count(*) FROM charges WHERE kind = 'refund'")
            .await;
        assert_eq!(charged - refunded, completed);
        assert_eq!(
            self.count("shipping", "SELECT count(*) FROM shipments").await,
            completed
        );
    }
}

fn partition(key: &str) -> i32 {
    i32::from(key.len() % 2 == 1)
}

pub(super) fn event(event_type: &str, saga_id: &str, payload: &str) -> TestRecord {
    TestRecord::from((saga_id, payload))
        .header("eventType", event_type)
        .header("correlation_id", saga_id)
}

async fn create_tables(database: &Database) {
    let tables = "CREATE TABLE orders (id text PRIMARY KEY, status text NOT NULL);
        CREATE TABLE stock (free integer NOT NULL);
        INSERT INTO stock VALUES (100);
        CREATE TABLE reservations (id text PRIMARY KEY);
        CREATE TABLE charges (id text NOT NULL, kind text NOT NULL, PRIMARY KEY (id, kind));
        CREATE TABLE shipments (id text PRIMARY KEY);";
    match database {
        Database::Postgres(pool) => sqlx::raw_sql(tables).execute(pool).await.map(drop).unwrap(),
        Database::Sqlite(pool) => sqlx::raw_sql(tables).execute(pool).await.map(drop).unwrap(),
    }
}

pub(super) async fn count(database: &Database, sql: &'static str) -> i64 {
    match database {
        Database::Postgres(pool) => {
            let sql = sqlx::AssertSqlSafe(format!("SELECT ({sql})::bigint"));
            sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
        }
        Database::Sqlite(pool) => sqlx::query_scalar(sql).fetch_one(pool).await.unwrap(),
    }
}

type OutboxRow = (i64, String, String, String, String, Option<Vec<u8>>, String);

/// Publishes the rows of an outbox in their order: the relay in its simplest form.
async fn relay(database: Database, broker: Arc<TestBroker>) {
    let mut published = 0;
    loop {
        let rows: Vec<OutboxRow> = match &database {
            Database::Postgres(pool) => sqlx::query_as(
                "SELECT sequence, id::text, coalesce(topic, aggregatetype || '.events'), aggregateid, type, payload, \
                 headers::text FROM milena_outbox WHERE sequence > $1 AND published_at IS NULL ORDER BY sequence",
            )
            .bind(-1_i64)
            .fetch_all(pool)
            .await
            .unwrap_or_default(),
            Database::Sqlite(pool) => sqlx::query_as(
                "SELECT sequence, id, coalesce(topic, aggregatetype || '.events'), aggregateid, type, payload, headers \
                 FROM milena_outbox WHERE sequence > $1 AND published_at IS NULL ORDER BY sequence",
            )
            .bind(published)
            .fetch_all(pool)
            .await
            .unwrap_or_default(),
        };
        for (sequence, id, topic, key, event_type, payload, headers) in rows {
            let mut record = TestRecord::new(payload.unwrap_or_default())
                .key(&key)
                .header("id", id)
                .header("eventType", event_type);
            let headers: std::collections::BTreeMap<String, String> = serde_json::from_str(&headers).unwrap();
            for (name, value) in headers {
                record = record.header(name, value);
            }
            broker.produce(&topic, partition(&key), [record]);
            published = published.max(sequence);
            if let Database::Postgres(pool) = &database {
                let done = sqlx::query("UPDATE milena_outbox SET published_at = now() WHERE sequence = $1");
                let _ = done.bind(sequence).execute(pool).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
