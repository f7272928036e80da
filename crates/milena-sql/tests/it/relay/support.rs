//! Relays, writers and readers of the tests.

use std::{collections::BTreeMap, future::Future, time::Duration};

use milena_client::{
    config::{ConfigMap, ConsumerConfig},
    consumer::{Consumer, TopicPartition},
};
use milena_sql::{
    Database,
    outbox::{self, OutboxEvent},
    relay::{Relay, backlog},
};
use milena_test::TestBroker;

/// Bound of every wait; a test that needs it has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// A record as its readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) headers: BTreeMap<String, String>,
}

pub(super) fn relay(database: &Database, broker: &TestBroker) -> Relay {
    let mut settings = ConfigMap::new();
    settings.set("bootstrap.servers", broker.bootstrap_servers());
    Relay::new(database.clone(), settings).lease(Duration::from_secs(3))
}

/// Commits one event.
pub(super) async fn write(database: &Database, kind: &str, id: &str, payload: &str) {
    let mut transaction = database.begin().await.unwrap();
    let event = OutboxEvent::new(kind, id, "Changed").payload(payload.to_owned());
    outbox::write(transaction.connection(), &event).await.unwrap();
    transaction.commit().await.unwrap();
}

/// Waits until the condition holds.
pub(super) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(LIMIT, waiting).await.is_err() {
        panic!("not within {LIMIT:?}: {what}");
    }
}

pub(super) async fn until_published(database: &Database) {
    until("all rows are published", || async {
        backlog(database).await.unwrap().rows == 0
    })
    .await;
}

/// All records of a topic, in the order of each partition.
pub(super) async fn records(broker: &TestBroker, topic: &str, partitions: i32) -> Vec<Published> {
    let config = ConsumerConfig::builder(broker.bootstrap_servers()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    let partitions: Vec<_> = (0..partitions)
        .map(|partition| TopicPartition::new(topic, partition))
        .collect();
    consumer.assign(partitions.clone()).unwrap();
    let ends = consumer.end_offsets(&partitions).await.unwrap();
    let count: i64 = ends.values().sum();
    let mut seen = vec![];
    while seen.len() < usize::try_from(count).unwrap() {
        let polled = consumer.poll(LIMIT).await.unwrap();
        seen.extend(polled.iter().map(|record| {
            let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
            let headers = record.headers();
            Published {
                key: text(record.key()),
                value: text(record.value()),
                headers: headers
                    .map(|header| (text(Some(header.key)), text(header.value)))
                    .collect(),
            }
        }));
    }
    seen
}

/// Values of each key, in their order.
pub(super) fn by_key(records: &[Published]) -> BTreeMap<String, Vec<String>> {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in records {
        keys.entry(record.key.clone()).or_default().push(record.value.clone());
    }
    keys
}

/// The numbers from 1 to `count`, as values.
pub(super) fn numbers(count: usize) -> Vec<String> {
    (1..=count).map(|number| number.to_string()).collect()
}
