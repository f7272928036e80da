//! Batches in one transaction.

use std::time::Duration;

use milena_app::prelude::*;
use milena_sql::once::{Tx, fault};
use milena_test::{TestBroker, TestKit, TestRecord};
use sqlx::{Postgres, Sqlite};

use super::shop::{Script, Shop, Step, effects, noted, opened};

async fn effect_of_all<DB: Shop>(
    batch: Batch<Value<String>>,
    mut tx: Tx<DB>,
    State(script): State<Script>,
) -> Result<Vec<Result<(), Fault>>, Fault> {
    let mut outcomes = vec![];
    for Value(name) in batch {
        DB::add(&mut tx, &name).await.map_err(fault)?;
        outcomes.push(script.next(&name).await);
    }
    Ok(outcomes)
}

async fn batch<DB: Shop>() {
    let home = DB::home();
    let database = opened(&home).await;
    let script = Script::default()
        .with("two", [Step::Fail])
        .with("three", [Step::Poison]);
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    let record = |value: &str, id: &str| TestRecord::new(value).header("event_id", id);
    let records = [
        record("one", "e1"),
        record("two", "e2"),
        record("one", "e1"),
        record("three", "e3"),
        record("four", "e4"),
    ];
    broker.produce("orders", 0, records);
    let app = App::new("")
        .group("billing")
        .state(database.clone())
        .state(script.clone());
    let app = app.batch("orders", effect_of_all::<DB>, |policy| {
        policy.order(Order::Unordered).batch_size(100)
    });
    let kit = TestKit::start_on(broker, app).await;
    kit.settled().await;
    kit.advance(Duration::from_secs(10)).await;
    assert_eq!(effects(&database).await, ["four", "one", "two"]);
    assert_eq!(noted(&database).await, ["e1", "e2", "e4"]);
    kit.assert_dlq("orders", 1).await;
    let counts = kit.running().counts();
    let counts = counts.first().unwrap();
    assert_eq!((counts.success, counts.duplicates), (3, 1));
    // All of a batch were handled before.
    kit.broker()
        .produce("orders", 0, [record("one", "e1"), record("two", "e2")]);
    kit.advance(Duration::from_secs(10)).await;
    assert_eq!(kit.running().counts().first().unwrap().duplicates, 3);
    assert_eq!(effects(&database).await, ["four", "one", "two"]);
    kit.stop().await;
}

#[tokio::test]
async fn a_batch_is_one_transaction_without_duplicates() {
    batch::<Postgres>().await;
    batch::<Sqlite>().await;
}
