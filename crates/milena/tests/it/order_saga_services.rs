//! The order saga: four services with a database each, on one broker.

use std::{collections::BTreeMap, time::Duration};

use milena::{
    app::{Clock, Running},
    sql::{Database, relay::RunningRelay, sqlx},
};
use milena_test::TestBroker;
use tempfile::TempDir;

use crate::order_saga::{self, Order, SERVICES};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The services, some of them started.
struct Shop {
    broker: TestBroker,
    clock: Clock,
    databases: BTreeMap<&'static str, Database>,
    relays: Vec<RunningRelay>,
    apps: BTreeMap<&'static str, Running>,
    directory: TempDir,
}

impl Shop {
    async fn open(started: &[&'static str]) -> Self {
        let broker = TestBroker::start();
        let mut shop = Self {
            clock: Clock::manual(),
            databases: BTreeMap::new(),
            relays: vec![],
            apps: BTreeMap::new(),
            directory: tempfile::tempdir().unwrap(),
            broker,
        };
        for name in SERVICES {
            shop.broker.create_topic(&format!("{name}.events"), 1);
            let database = order_saga::open(shop.directory.path(), name).await.unwrap();
            let relay = order_saga::relay(&shop.broker.bootstrap_servers(), &database);
            shop.relays.push(relay.start().await.unwrap());
            shop.databases.insert(name, database);
        }
        for name in started {
            shop.start(name).await;
        }
        shop
    }

    async fn start(&mut self, name: &'static str) {
        let app = order_saga::service(name, &self.broker.bootstrap_servers(), &self.databases[name]);
        let app = app.unwrap().clock(self.clock.clone());
        self.apps.insert(name, app.start().await.unwrap());
    }

    async fn place(&self, id: &str, card: &str) {
        let order = Order {
            product: "book".to_owned(),
            cents: 1250,
            card: card.to_owned(),
        };
        order_saga::place(&self.databases["orders"], id, &order).await.unwrap();
    }

    async fn count(&self, service: &str, query: &'static str) -> i64 {
        let Database::Sqlite(pool) = &self.databases[service] else {
            unreachable!()
        };
        sqlx::query_scalar(query).fetch_one(pool).await.unwrap()
    }

    async fn wait_for(&self, service: &str, query: &'static str, count: i64) {
        let waiting = async {
            while self.count(service, query).await != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(TIMEOUT, waiting).await;
        assert!(waited.is_ok(), "{service}: {query} is not {count}");
    }

    /// Types of the events in a service's outbox, in their order.
    async fn events(&self, service: &str) -> Vec<String> {
        let Database::Sqlite(pool) = &self.databases[service] else {
            unreachable!()
        };
        let query = sqlx::query_scalar("SELECT type FROM milena_outbox ORDER BY sequence");
        query.fetch_all(pool).await.unwrap()
    }
}

#[tokio::test]
async fn a_good_order_is_completed() {
    let shop = Shop::open(&SERVICES).await;
    shop.place("1", "good").await;
    shop.wait_for("orders", "SELECT count(*) FROM orders WHERE status = 'completed'", 1)
        .await;
    assert_eq!(shop.count("inventory", "SELECT free FROM stock").await, 9);
    assert_eq!(shop.count("payment", "SELECT sum(cents) FROM payments").await, 1250);
    assert_eq!(shop.count("shipping", "SELECT count(*) FROM shipments").await, 1);
    assert_eq!(shop.events("orders").await, ["OrderCreated", "OrderCompleted"]);
}

#[tokio::test]
async fn a_failed_payment_releases_the_stock_and_cancels_the_order() {
    let shop = Shop::open(&SERVICES).await;
    shop.place("1", "expired").await;
    shop.wait_for("orders", "SELECT count(*) FROM orders WHERE status = 'cancelled'", 1)
        .await;
    assert_eq!(
        shop.events("inventory").await,
        ["InventoryReserved", "InventoryReleased"]
    );
    assert_eq!(shop.events("payment").await, ["PaymentFailed"]);
    assert_eq!(shop.events("orders").await, ["OrderCreated", "OrderCancelled"]);
    assert_eq!(shop.count("inventory", "SELECT free FROM stock").await, 10);
    assert_eq!(shop.count("payment", "SELECT count(*) FROM payments").await, 0);
    assert!(shop.events("shipping").await.is_empty());
    let reason = "SELECT count(*) FROM orders WHERE reason = 'step charge failed: card declined'";
    assert_eq!(shop.count("orders", reason).await, 1);
}

/// Payment and shipping are down. After a minute the saga is cancelled; when they are back, the compensations may arrive
/// before the actions.
#[tokio::test]
async fn services_that_come_too_late_do_nothing() {
    let mut shop = Shop::open(&["orders", "inventory"]).await;
    shop.place("1", "good").await;
    let awaited = "SELECT count(*) FROM milena_saga_events WHERE event_type = 'InventoryReserved'";
    shop.wait_for("orders", awaited, 1).await;
    shop.clock.advance(Duration::from_secs(61));
    let asked = "SELECT count(*) FROM milena_outbox WHERE type = 'CompensationRequested'";
    shop.wait_for("orders", asked, 1).await;
    shop.start("shipping").await;
    // Shipping has cancelled its step before it was asked to ship, and says so.
    let failed = "SELECT count(*) FROM milena_outbox WHERE type = 'ShipmentFailed'";
    shop.wait_for("shipping", failed, 1).await;
    shop.start("payment").await;
    shop.wait_for("orders", "SELECT count(*) FROM orders WHERE status = 'cancelled'", 1)
        .await;
    assert_eq!(shop.count("inventory", "SELECT free FROM stock").await, 10);
    assert_eq!(shop.count("payment", "SELECT count(*) FROM payments").await, 0);
    assert_eq!(shop.count("shipping", "SELECT count(*) FROM shipments").await, 0);
    let cancelled = "SELECT count(*) FROM milena_sagas WHERE status = 'cancelled'";
    assert_eq!(shop.count("shipping", cancelled).await, 1);
}
