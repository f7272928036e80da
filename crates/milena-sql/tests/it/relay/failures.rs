//! Events that are refused, brokers and databases that are away.

use std::time::Duration;

use milena_sql::{
    Database,
    relay::{backlog, failed_events, retry_failed},
};
use milena_test::{PostgresServer, TestBroker};

use super::support::{by_key, numbers, records, relay, until, until_published, write};
use crate::databases::Home;

async fn shrink(database: &Database, id: &str) {
    let shrink = "UPDATE milena_outbox SET payload = CAST('1' AS blob) WHERE aggregateid = $1 AND published_at IS NULL
        AND attempts > 0";
    match database {
        Database::Postgres(pool) => {
            let shrink = shrink.replace("CAST('1' AS blob)", "'1'::bytea");
            sqlx::query(sqlx::AssertSqlSafe(shrink))
                .bind(id)
                .execute(pool)
                .await
                .unwrap();
        }
        Database::Sqlite(pool) => drop(sqlx::query(shrink).bind(id).execute(pool).await.unwrap()),
    }
}

/// The first event of `poisoned` cannot be published; the others of its topic can.
async fn check_poison(home: &Home, broker: &TestBroker, large: &str) {
    let database = home.migrated().await;
    write(&database, "order", "poisoned", large).await;
    write(&database, "order", "poisoned", "2").await;
    for number in 1..=20 {
        write(&database, "order", "healthy", &number.to_string()).await;
    }
    let running = relay(&database, broker).start().await.unwrap();
    until("the healthy aggregate is published", || async {
        backlog(&database).await.unwrap().rows == 2
    })
    .await;
    until("the failure is in the table", || async {
        backlog(&database).await.unwrap().failed == 1
    })
    .await;
    let failed = failed_events(&database, 10).await.unwrap();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].aggregate_id, "poisoned");
    assert!(failed[0].attempts > 0 && !failed[0].last_error.is_empty(), "{failed:?}");
    until("the aggregate is stopped", || async {
        running
            .status()
            .stopped
            .iter()
            .any(|stopped| stopped.name == "order/poisoned")
    })
    .await;
    assert!(running.to_prometheus().contains("milena_outbox_stopped 1"));
    let keys = by_key(&records(broker, "order.events", 1).await);
    assert_eq!(
        keys,
        [("healthy".to_owned(), numbers(20))].into(),
        "2 must not overtake"
    );
    // An operator repairs the row.
    shrink(&database, "poisoned").await;
    assert_eq!(retry_failed(&database).await.unwrap(), 1);
    until_published(&database).await;
    running.stop().await.unwrap();
    let keys = by_key(&records(broker, "order.events", 1).await);
    assert_eq!(keys["poisoned"], numbers(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_too_large_for_the_producer_stops_its_aggregate_only() {
    for home in Home::both() {
        let broker = TestBroker::start();
        broker.create_topic("order.events", 1);
        check_poison(&home, &broker, &"x".repeat(2 << 20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_too_large_for_the_topic_stops_its_aggregate_only() {
    for home in Home::both() {
        let broker = TestBroker::start();
        broker.create_topic_with("order.events", 1, &[("max.message.bytes", "2000")]);
        check_poison(&home, &broker, &"x".repeat(5_000)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_topic_stops_its_events_only() {
    for home in Home::both() {
        let (database, broker) = (home.migrated().await, TestBroker::start());
        broker.create_topic("order.events", 1);
        for number in 1..=5 {
            for id in ["a", "b"] {
                write(&database, "missing", id, &number.to_string()).await;
                write(&database, "order", id, &number.to_string()).await;
            }
        }
        let running = relay(&database, &broker).start().await.unwrap();
        until("the events of the other topic are published", || async {
            backlog(&database).await.unwrap().rows == 10
        })
        .await;
        until("the topic is stopped", || async {
            running
                .status()
                .stopped
                .iter()
                .any(|stopped| stopped.name == "topic missing.events")
        })
        .await;
        broker.create_topic("missing.events", 1);
        until_published(&database).await;
        running.stop().await.unwrap();
        let keys = by_key(&records(&broker, "missing.events", 1).await);
        assert_eq!(keys, ["a", "b"].map(|id| (id.to_owned(), numbers(5))).into());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_wait_for_a_broker_that_is_away() {
    for home in Home::both() {
        let (database, broker) = (home.migrated().await, TestBroker::start());
        broker.create_topic("order.events", 2);
        let running = relay(&database, &broker).start().await.unwrap();
        write(&database, "order", "a", "1").await;
        until_published(&database).await;
        broker.kill();
        for number in 2..=20 {
            write(&database, "order", "a", &number.to_string()).await;
        }
        until("the outage is visible", || async { running.status().problem.is_some() }).await;
        broker.restart();
        until_published(&database).await;
        until("the outage is over", || async { running.status().problem.is_none() }).await;
        assert_eq!(running.status().failures, 0, "no event is to blame");
        running.stop().await.unwrap();
        let mut values = by_key(&records(&broker, "order.events", 2).await).remove("a").unwrap();
        // An event whose acknowledgement was lost comes twice, but in its place.
        values.dedup();
        assert_eq!(values, numbers(20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_continues_after_a_restart_of_the_database() {
    let mut server = PostgresServer::start();
    let database = Database::connect(&server.create_database()).await.unwrap();
    database.migrate().await.unwrap();
    let broker = TestBroker::start();
    broker.create_topic("order.events", 1);
    let running = relay(&database, &broker).start().await.unwrap();
    write(&database, "order", "a", "1").await;
    until_published(&database).await;
    server.kill();
    until("the outage is visible", || async { running.status().problem.is_some() }).await;
    server.restart();
    until("the database is back", || async { backlog(&database).await.is_ok() }).await;
    for number in 2..=10 {
        write(&database, "order", "a", &number.to_string()).await;
    }
    until_published(&database).await;
    running.stop().await.unwrap();
    let keys = by_key(&records(&broker, "order.events", 1).await);
    assert_eq!(keys["a"], numbers(10));
    drop(tokio::time::timeout(Duration::from_secs(5), database.close()).await);
}
