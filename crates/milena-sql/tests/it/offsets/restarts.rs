//! Kills and restarts: each record has one effect, whatever was in flight.

use std::{collections::BTreeMap, time::Duration};

use milena_app::prelude::*;

use super::rig::{GROUP, Gate, Rig, TOPIC, until};
use crate::databases::Home;

/// The next number of each partition, for values such as `2-17` with keys `2-a` to `2-c`.
struct Numbers(Vec<i64>);

impl Numbers {
    fn produce(&mut self, rig: &Rig, count: usize) {
        for (partition, next) in (0..).zip(&mut self.0) {
            let records = (0..count).map(|_| {
                let number = *next;
                *next += 1;
                let key = ["a", "b", "c"][usize::try_from(number % 3).unwrap()];
                (format!("{partition}-{key}"), format!("{partition}-{number:05}"))
            });
            let records: Vec<(String, String)> = records.collect();
            let records = records.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            rig.broker.produce(TOPIC, partition, records);
        }
    }

    fn total(&self) -> usize {
        self.0.iter().sum::<i64>().try_into().unwrap()
    }
}

async fn kills_repeat_and_lose_nothing(home: Home, order: Order) {
    let rig = Rig::new(home, 3).await;
    let mut numbers = Numbers(vec![0; 3]);
    // Kills at random would make the crash guard suspect the records in flight.
    let start = || {
        rig.orders(rig.app().crash_limit(None), |policy| policy.order(order))
            .start()
    };
    for round in 0..6 {
        numbers.produce(&rig, 20);
        let running = start().await.unwrap();
        rig.effects_are(numbers.total() - 40 + round * 5).await;
        numbers.produce(&rig, 5);
        rig.kill(running);
    }
    let running = start().await.unwrap();
    rig.effects_are(numbers.total()).await;
    for (partition, end) in (0..).zip(&numbers.0) {
        rig.stored_is(partition, *end).await;
        until("the copy in Kafka", || {
            rig.broker.committed(GROUP, TOPIC, partition) == Some(*end)
        })
        .await;
    }
    running.stop().await.unwrap();
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in rig.effects().await {
        let key = if order == Order::Partition {
            value[..1].to_owned()
        } else {
            key
        };
        by_key.entry(key).or_default().push(value);
    }
    assert_eq!(by_key.values().map(Vec::len).sum::<usize>(), numbers.total());
    for (key, values) in by_key {
        let mut sorted = values.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), values.len(), "an effect of {key} happened twice");
        if order != Order::Unordered {
            assert_eq!(sorted, values, "{key} is out of order");
        }
    }
}

macro_rules! kills {
    ($($name:ident $home:ident $order:ident)*) => {
        $(#[tokio::test]
        async fn $name() {
            kills_repeat_and_lose_nothing(Home::$home(), Order::$order).await;
        })*
    };
}

kills! {
    kills_in_partition_order_on_postgres postgres Partition
    kills_in_key_order_on_postgres postgres Key
    kills_without_order_on_postgres postgres Unordered
    kills_in_partition_order_on_sqlite sqlite Partition
    kills_in_key_order_on_sqlite sqlite Key
}

#[tokio::test]
async fn the_offset_of_a_partition_in_order_is_in_the_transaction_of_its_effect() {
    for home in Home::both() {
        let rig = Rig::new(home, 1).await;
        rig.broker.produce(TOPIC, 0, ["one", "skip", "two"]);
        let app = rig.app().commit_interval(Duration::from_secs(3600)).crash_limit(None);
        let app = rig.orders(app, |policy| policy.order(Order::Partition));
        let running = app.clone().start().await.unwrap();
        rig.effects_are(3).await;
        // Without any commit of the runtime.
        assert_eq!(rig.stored(GROUP, TOPIC, 0).await, Some(3));
        rig.kill(running);
        rig.broker.produce(TOPIC, 0, ["three"]);
        let running = app.start().await.unwrap();
        rig.effects_are(4).await;
        assert_eq!(
            running.counts()[0].duplicates,
            0,
            "the consumer has sought behind all effects"
        );
        running.stop().await.unwrap();
        assert_eq!(rig.values().await, ["one", "skip", "two", "three"]);
    }
}

/// SQLite has one writer: a record that waits lets all others wait.
#[tokio::test]
async fn records_above_the_stored_offset_are_guarded_by_their_processed_events() {
    let rig = Rig::new(Home::postgres(), 1).await;
    rig.broker
        .produce(TOPIC, 0, [("a", "wait"), ("b", "one"), ("c", "two")]);
    let app = rig.app().commit_interval(Duration::from_secs(3600)).crash_limit(None);
    let app = rig.orders(app, |policy| policy.order(Order::Key));
    let running = app.clone().start().await.unwrap();
    rig.effects_are(2).await;
    assert_eq!(rig.stored(GROUP, TOPIC, 0).await, Some(0));
    rig.kill(running);
    let gate = Gate::new();
    gate.open.add_permits(1);
    let running = app.state(gate).start().await.unwrap();
    rig.effects_are(3).await;
    until("the duplicates", || running.counts()[0].duplicates == 2).await;
    running.stop().await.unwrap();
    assert_eq!(rig.stored(GROUP, TOPIC, 0).await, Some(3));
}

/// The environment of the process that is killed: the broker, the database and the order.
const CHILD: &str = "MILENA_STORED_OFFSETS_CHILD";

/// The process that [`kill_9_repeats_and_loses_nothing`] kills. By itself this test does nothing.
#[tokio::test]
async fn process_that_is_killed() {
    let Ok(child) = std::env::var(CHILD) else { return };
    let mut parts = child.split(' ');
    let (broker, url, order) = (parts.next().unwrap(), parts.next().unwrap(), parts.next());
    let database = milena_sql::Database::connect(url).await.unwrap();
    let order = if order == Some("key") {
        Order::Key
    } else {
        Order::Partition
    };
    let app = super::rig::app(broker, &database).crash_limit(None);
    let app = super::rig::orders(&database, app, |policy| policy.order(order));
    let _running = app.start().await.unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn kill_9_repeats_and_loses_nothing() {
    for (order, home) in [
        ("partition", Home::postgres()),
        ("key", Home::postgres()),
        ("key", Home::sqlite()),
    ] {
        let rig = Rig::new(home, 2).await;
        let child = format!("{} {} {order}", rig.broker.bootstrap_servers(), rig.url());
        let mut numbers = Numbers(vec![0; 2]);
        for round in 0..5 {
            numbers.produce(&rig, 30);
            let mut process = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "offsets::restarts::process_that_is_killed"])
                .env(CHILD, &child)
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let enough = if round == 4 {
                numbers.total()
            } else {
                numbers.total() - 40
            };
            rig.effects_are(enough).await;
            process.kill().unwrap();
            process.wait().unwrap();
            rig.forget_members();
        }
        let mut values = rig.values().await;
        assert_eq!(values.len(), numbers.total());
        values.sort();
        values.dedup();
        assert_eq!(values.len(), numbers.total());
    }
}
