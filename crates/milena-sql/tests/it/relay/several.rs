//! Several relays on one table.

use std::time::Duration;

use milena_sql::relay::backlog;
use milena_test::TestBroker;

use super::support::{by_key, numbers, records, relay, until, until_published, write};
use crate::databases::Home;

const AGGREGATES: usize = 20;

fn ids() -> Vec<String> {
    (0..AGGREGATES).map(|number| format!("aggregate-{number}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn relays_that_come_and_go_neither_double_nor_reorder() {
    let home = Home::postgres();
    let (database, broker) = (home.migrated().await, TestBroker::start());
    broker.create_topic("order.events", 4);
    let first = relay(&database, &broker).batch(5).start().await.unwrap();
    let writer = {
        let database = database.clone();
        tokio::spawn(async move {
            for number in 1..=100 {
                for id in ids() {
                    write(&database, "order", &id, &number.to_string()).await;
                }
            }
        })
    };
    let second = relay(&database, &broker).batch(5).start().await.unwrap();
    until("the slots are shared", || async {
        (first.status().slots, second.status().slots) == (128, 128)
    })
    .await;
    first.stop().await.unwrap();
    until("one relay has all slots", || async { second.status().slots == 256 }).await;
    writer.await.unwrap();
    until_published(&database).await;
    second.stop().await.unwrap();
    let keys = by_key(&records(&broker, "order.events", 4).await);
    assert_eq!(keys, ids().into_iter().map(|id| (id, numbers(100))).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_relay_of_sqlite_waits_for_the_lease() {
    let home = Home::sqlite();
    let (database, broker) = (home.migrated().await, TestBroker::start());
    broker.create_topic("order.events", 1);
    let first = relay(&database, &broker).start().await.unwrap();
    until("the first has the slot", || async { first.status().slots == 1 }).await;
    let second = relay(&database, &broker).start().await.unwrap();
    write(&database, "order", "a", "1").await;
    until_published(&database).await;
    assert_eq!((first.status().published, second.status().published), (1, 0));
    first.stop().await.unwrap();
    until("the second has the slot", || async { second.status().slots == 1 }).await;
    write(&database, "order", "a", "2").await;
    until_published(&database).await;
    second.stop().await.unwrap();
    assert_eq!(by_key(&records(&broker, "order.events", 1).await)["a"], numbers(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_relay_is_replaced_when_its_lease_has_expired() {
    for home in Home::both() {
        let (database, broker) = (home.migrated().await, TestBroker::start());
        broker.create_topic("order.events", 1);
        let killed = relay(&database, &broker).start().await.unwrap();
        write(&database, "order", "a", "1").await;
        until_published(&database).await;
        drop(killed);
        write(&database, "order", "a", "2").await;
        let next = relay(&database, &broker).start().await.unwrap();
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(backlog(&database).await.unwrap().rows, 1, "the lease is not over");
        until_published(&database).await;
        next.stop().await.unwrap();
        assert_eq!(by_key(&records(&broker, "order.events", 1).await)["a"], numbers(2));
    }
}
