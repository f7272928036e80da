//! Publishing and cleaning.

use std::time::Duration;

use milena_client::config::ConfigMap;
use milena_sql::{
    Database,
    outbox::{self, OutboxEvent},
    relay::{Relay, RelayError, backlog, clean_published},
};
use milena_test::TestBroker;

use super::support::{by_key, numbers, records, relay, until, until_published, write};
use crate::databases::Home;

#[tokio::test(flavor = "multi_thread")]
async fn committed_events_are_published_once_and_in_order() {
    for home in Home::both() {
        let (database, broker) = (home.migrated().await, TestBroker::start());
        broker.create_topic("order.events", 3);
        broker.create_topic("special", 1);
        let mut transaction = database.begin().await.unwrap();
        let event = OutboxEvent::new("order", "rolled back", "Changed").payload("x");
        outbox::write(transaction.connection(), &event).await.unwrap();
        transaction.rollback().await.unwrap();
        let mut transaction = database.begin().await.unwrap();
        let event = OutboxEvent::new("order", "7", "OrderPlaced").payload("{}");
        let event = event.header("tenant", "acme").topic("special");
        let id = outbox::write(transaction.connection(), &event).await.unwrap();
        transaction.commit().await.unwrap();
        let running = relay(&database, &broker).batch(7).start().await.unwrap();
        for number in 1..=50 {
            for aggregate in ["a", "b", "c"] {
                write(&database, "order", aggregate, &number.to_string()).await;
            }
        }
        until_published(&database).await;
        assert_eq!(running.status().published, 151);
        running.stop().await.unwrap();
        let special = records(&broker, "special", 1).await;
        assert_eq!(special.len(), 1);
        assert_eq!((special[0].key.as_str(), special[0].value.as_str()), ("7", "{}"));
        let headers = [
            ("id", id.to_string()),
            ("eventType", "OrderPlaced".to_owned()),
            ("tenant", "acme".to_owned()),
        ];
        let headers = headers.map(|(key, value)| (key.to_owned(), value));
        assert_eq!(special[0].headers, headers.into());
        let keys = by_key(&records(&broker, "order.events", 3).await);
        let expected = ["a", "b", "c"].map(|key| (key.to_owned(), numbers(50)));
        assert_eq!(keys, expected.into());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_released_at_the_end() {
    for home in Home::both() {
        let (database, broker) = (home.migrated().await, TestBroker::start());
        let running = relay(&database, &broker).start().await.unwrap();
        until("the relay has slots", || async { running.status().slots > 0 }).await;
        running.stop().await.unwrap();
        let count = "SELECT (SELECT count(*) FROM milena_outbox_slots WHERE owner IS NOT NULL)
            + (SELECT count(*) FROM milena_outbox_relays)";
        let held: i64 = match &database {
            Database::Postgres(pool) => sqlx::query_scalar(count).fetch_one(pool).await.unwrap(),
            Database::Sqlite(pool) => sqlx::query_scalar(count).fetch_one(pool).await.unwrap(),
        };
        assert_eq!(held, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn published_rows_are_deleted_after_their_time() {
    for home in Home::both() {
        let (database, broker) = (home.migrated().await, TestBroker::start());
        broker.create_topic("order.events", 1);
        let running = relay(&database, &broker).start().await.unwrap();
        write(&database, "order", "a", "1").await;
        until_published(&database).await;
        running.stop().await.unwrap();
        write(&database, "order", "a", "2").await;
        assert_eq!(clean_published(&database, Duration::from_secs(3600)).await.unwrap(), 0);
        until("a millisecond has passed", || async {
            clean_published(&database, Duration::ZERO).await.unwrap() == 1
        })
        .await;
        assert_eq!(backlog(&database).await.unwrap().rows, 1, "unpublished rows stay");
        // The relay does the same by itself.
        let cleaning = relay(&database, &broker)
            .keep_published(Duration::ZERO)
            .clean_interval(Duration::from_millis(50));
        let running = cleaning.start().await.unwrap();
        until("the row is deleted", || async {
            let rows = "SELECT count(*) FROM milena_outbox";
            let rows: i64 = match &database {
                Database::Postgres(pool) => sqlx::query_scalar(rows).fetch_one(pool).await.unwrap(),
                Database::Sqlite(pool) => sqlx::query_scalar(rows).fetch_one(pool).await.unwrap(),
            };
            rows == 0
        })
        .await;
        running.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_settings_and_missing_tables_are_refused() {
    let home = Home::sqlite();
    let database = home.connect().await;
    let settings = |key: &str, value: &str| {
        let mut settings = ConfigMap::new();
        settings.set("bootstrap.servers", "127.0.0.1:1").set(key, value);
        settings
    };
    let missing = Relay::new(database.clone(), settings("client.id", "x")).start().await;
    assert!(matches!(missing, Err(RelayError::Tables(_))), "{missing:?}");
    let ours = Relay::new(database.clone(), settings("acks", "1")).start().await;
    assert!(matches!(ours, Err(RelayError::OurSetting { key: "acks" })), "{ours:?}");
    let short = Relay::new(database.clone(), settings("client.id", "x")).lease(Duration::from_secs(1));
    assert!(matches!(short.start().await, Err(RelayError::Lease { .. })));
    let zero = Relay::new(database, settings("client.id", "x")).batch(0);
    assert!(matches!(zero.start().await, Err(RelayError::Zero { name: "batch" })));
}
