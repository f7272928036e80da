//! Where a partition begins: first starts, recreated topics, deleted records, new partitions.

use milena_app::prelude::*;
use milena_client::{admin::Admin, config::ConfigMap};

use super::rig::{GROUP, Rig, TOPIC, partition, until, within};
use crate::databases::Home;

#[tokio::test]
async fn the_first_start_continues_where_the_group_is_and_later_ones_where_the_database_is() {
    for home in Home::both() {
        let rig = Rig::new(home, 1).await;
        rig.broker.produce(TOPIC, 0, ["zero", "one", "two", "three"]);
        rig.broker.commit(GROUP, TOPIC, 0, 2);
        let running = rig.start(Order::Partition).await;
        rig.effects_are(2).await;
        running.stop().await.unwrap();
        assert_eq!(rig.values().await, ["two", "three"]);
        assert_eq!(rig.broker.committed(GROUP, TOPIC, 0), Some(4));
        // The copy in Kafka is not read again.
        rig.broker.commit(GROUP, TOPIC, 0, 0);
        rig.broker.produce(TOPIC, 0, ["four"]);
        let running = rig.start(Order::Partition).await;
        rig.effects_are(3).await;
        assert_eq!(running.counts()[0].duplicates, 0);
        running.stop().await.unwrap();
        // A database that was restored from a backup handles again what it has lost.
        rig.execute("DELETE FROM effects WHERE value IN ('three', 'four')")
            .await;
        rig.execute("DELETE FROM milena_processed_events WHERE event_id IN ('orders-0-3', 'orders-0-4')")
            .await;
        rig.execute("UPDATE milena_offsets SET next_offset = 3, metadata_offset = 3, metadata = ''")
            .await;
        let running = rig.start(Order::Partition).await;
        rig.effects_are(3).await;
        running.stop().await.unwrap();
        assert_eq!(rig.values().await, ["two", "three", "four"]);
    }
}

#[tokio::test]
async fn a_start_at_the_latest_offset_survives_a_crash_before_the_first_record() {
    let rig = Rig::new(Home::sqlite(), 1).await;
    rig.broker.produce(TOPIC, 0, ["old"]);
    let app = || rig.orders(rig.app().consumer("auto.offset.reset", "latest"), |policy| policy);
    let running = app().start().await.unwrap();
    rig.stored_is(0, 1).await;
    rig.kill(running);
    rig.broker.produce(TOPIC, 0, ["new"]);
    let running = app().start().await.unwrap();
    rig.effects_are(1).await;
    running.stop().await.unwrap();
    assert_eq!(rig.values().await, ["new"]);
}

#[tokio::test]
async fn a_recreated_topic_is_read_from_its_begin() {
    for home in Home::both() {
        let rig = Rig::new(home, 1).await;
        rig.broker.produce(TOPIC, 0, ["one", "two", "three"]);
        let running = rig.start(Order::Partition).await;
        rig.effects_are(3).await;
        running.stop().await.unwrap();
        rig.broker.delete_topic(TOPIC);
        rig.broker.create_topic(TOPIC, 1);
        rig.broker.produce(TOPIC, 0, ["uno", "dos"]);
        let running = rig.start(Order::Partition).await;
        rig.effects_are(5).await;
        assert_eq!(running.counts()[0].duplicates, 0);
        running.stop().await.unwrap();
        assert_eq!(rig.values().await, ["one", "two", "three", "uno", "dos"]);
        assert_eq!(rig.stored(GROUP, TOPIC, 0).await, Some(2));
    }
}

#[tokio::test]
async fn records_that_retention_has_deleted_are_left_out() {
    let rig = Rig::new(Home::postgres(), 1).await;
    rig.broker.produce(TOPIC, 0, ["one"]);
    let running = rig.start(Order::Partition).await;
    rig.effects_are(1).await;
    running.stop().await.unwrap();
    rig.broker.produce(TOPIC, 0, ["two", "three", "four"]);
    let mut settings = ConfigMap::new();
    settings.set("bootstrap.servers", rig.broker.bootstrap_servers());
    let admin = Admin::new(settings).unwrap();
    let deleted = admin.delete_records([(partition(0), Some(3))]).await;
    assert!(deleted.into_values().all(|deleted| deleted.is_ok()));
    let running = rig.start(Order::Partition).await;
    rig.effects_are(2).await;
    running.stop().await.unwrap();
    assert_eq!(rig.values().await, ["one", "four"]);
    assert_eq!(rig.stored(GROUP, TOPIC, 0).await, Some(4));
}

#[tokio::test]
async fn new_partitions_get_offsets_of_their_own() {
    let rig = Rig::new(Home::postgres(), 1).await;
    let app = rig.app().consumer("metadata.max.age.ms", 100);
    let running = rig.orders(app, |policy| policy).start().await.unwrap();
    rig.broker.produce(TOPIC, 0, ["one"]);
    rig.effects_are(1).await;
    rig.broker.create_partitions(TOPIC, 2);
    rig.broker.produce(TOPIC, 1, ["two"]);
    rig.effects_are(2).await;
    rig.stored_is(1, 1).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn failed_records_move_the_offset_after_their_failure_records() {
    for home in Home::both() {
        let rig = Rig::new(home, 1).await;
        rig.broker.produce(TOPIC, 0, ["poison", "retry", "fine"]);
        let minute = std::time::Duration::from_millis(100);
        let app = rig.orders(rig.app(), |policy| {
            let retry = Retry::default().attempts(1);
            policy.order(Order::Partition).retry(retry).then_topics([minute])
        });
        let running = app.clone().start().await.unwrap();
        rig.effects_are(2).await;
        rig.stored_is(0, 3).await;
        let topic = "orders.retry-100ms";
        within("the offset of the retry topic", async {
            while rig.stored("billing.retry-100ms", topic, 0).await != Some(1) {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        })
        .await;
        until("the dead letter", || running.counts()[0].dead_non_retriable == 1).await;
        running.stop().await.unwrap();
        let mut values = rig.values().await;
        values.sort();
        assert_eq!(values, ["fine", "retry"]);
    }
}
