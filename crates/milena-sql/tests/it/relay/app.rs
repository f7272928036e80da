//! A relay inside an application.

use std::time::Duration;

use milena_app::{
    StartError,
    background::{Background, BackgroundContext, BackgroundFuture},
    prelude::*,
};
use milena_sql::{
    Database,
    outbox::{self, OutboxEvent},
};
use milena_test::TestBroker;

use super::support::{records, relay, until, until_published};
use crate::databases::Home;

async fn announce(Raw(record): Raw, State(database): State<Database>) -> Result<Done, Fault> {
    let mut transaction = database.begin().await.map_err(Fault::retry)?;
    let value = record.value().unwrap_or_default().to_vec();
    let event = OutboxEvent::new("order", "a", "Announced").payload(value);
    outbox::write(transaction.connection(), &event)
        .await
        .map_err(Fault::retry)?;
    transaction.commit().await.map_err(Fault::retry)?;
    Ok(Done::Ok)
}

fn app(broker: &TestBroker, database: &Database) -> App {
    App::new(broker.bootstrap_servers())
        .group("orders")
        .state(database.clone())
        .on("orders", announce, |policy| policy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_publishes_what_handlers_write() {
    for home in Home::both() {
        let (database, broker) = (home.migrated().await, TestBroker::start());
        broker.create_topic("orders", 1);
        broker.create_topic("order.events", 1);
        broker.produce("orders", 0, ["1", "2", "3"]);
        let app = app(&broker, &database).background(relay(&database, &broker));
        let running = app.start().await.unwrap();
        until("the events are published", || async {
            records(&broker, "order.events", 1).await.len() == 3
        })
        .await;
        // A record can be read a moment before its acknowledgement is counted.
        until("the acknowledgements are counted", || async {
            running.to_prometheus().contains("milena_outbox_published_total 3")
        })
        .await;
        let metrics = running.to_prometheus();
        for name in [
            "milena_outbox_backlog",
            "milena_outbox_oldest_seconds",
            "milena_outbox_failures_total 0",
        ] {
            assert!(metrics.contains(name), "{name} is missing in {metrics}");
        }
        let status = running.status();
        assert!(status.is_healthy(), "{status:?}");
        assert_eq!(status.background[0].name, "outbox-relay");
        until_published(&database).await;
        running.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_does_not_start_without_the_tables_of_its_relay() {
    let (home, broker) = (Home::sqlite(), TestBroker::start());
    broker.create_topic("orders", 1);
    let database = home.connect().await;
    let app = app(&broker, &database).background(relay(&database, &broker));
    let failure = app.start().await.unwrap_err();
    assert!(
        matches!(&failure, StartError::Background { name, .. } if name == "outbox-relay"),
        "{failure}"
    );
    assert!(failure.to_string().contains("milena sql init"), "{failure}");
}

/// A background task that ends by itself.
struct Quitter;

impl Background for Quitter {
    fn name(&self) -> &str {
        "quitter"
    }

    fn run(&self, _context: BackgroundContext) -> BackgroundFuture {
        Box::pin(async { Err("no more".into()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_background_task_that_fails_ends_the_application() {
    let (home, broker) = (Home::sqlite(), TestBroker::start());
    broker.create_topic("orders", 1);
    let database = home.migrated().await;
    let running = app(&broker, &database).background(Quitter).start().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), running.ended());
    ended.await.expect("the application ends");
    let status = running.status();
    assert!(
        !status.is_healthy() && status.background[0].problem.is_some(),
        "{status:?}"
    );
    let failure = running.stop().await.unwrap_err();
    assert_eq!(failure.to_string(), "the background task quitter failed: no more");
}
