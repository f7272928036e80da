//! Helpers of the application tests.

use std::{future::Future, time::Duration};

use milena_app::App;
use milena_client::{
    config::ConsumerConfig,
    consumer::{Consumer, ConsumerRecord, TopicPartition},
};
use milena_test::TestBroker;

/// Timeout of a wait: far longer than any step takes.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub const GROUP: &str = "billing";

/// An application of the group [`GROUP`] with short heartbeats.
pub fn app(broker: &TestBroker) -> App {
    App::new(broker.bootstrap_servers())
        .group(GROUP)
        .consumer("heartbeat.interval.ms", 50)
        .consumer("session.timeout.ms", 6000)
        .producer("linger.ms", 0)
}

/// Waits for a future, up to the timeout.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(TIMEOUT, future).await;
    waited.unwrap_or_else(|_| panic!("{what} did not happen within {TIMEOUT:?}"))
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    within(what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// Waits until the group has committed this offset.
pub async fn committed(broker: &TestBroker, group: &str, topic: &str, partition: i32, offset: i64) {
    let what = format!("the commit of offset {offset} of {topic}-{partition}");
    until(&what, || broker.committed(group, topic, partition) == Some(offset)).await;
}

/// The first `count` records of a topic, ordered by partition.
pub async fn read(broker: &TestBroker, topic: &str, partitions: i32, count: usize) -> Vec<ConsumerRecord> {
    read_with(broker, topic, partitions, count, "read_uncommitted").await
}

pub async fn read_with(
    broker: &TestBroker,
    topic: &str,
    partitions: i32,
    count: usize,
    isolation: &str,
) -> Vec<ConsumerRecord> {
    let config = ConsumerConfig::builder(broker.bootstrap_servers())
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", isolation);
    let mut consumer = Consumer::new(config).unwrap();
    let all = (0..partitions).map(|partition| TopicPartition::new(topic, partition));
    consumer.assign(all).unwrap();
    let mut found = vec![];
    within(&format!("{count} records of {topic}"), async {
        while found.len() < count {
            let records = consumer.poll(TIMEOUT).await.unwrap();
            found.extend(records.iter().map(|record| record.to_owned()));
        }
    })
    .await;
    found.sort_by_key(|record| (record.partition(), record.offset()));
    found
}

pub fn text(bytes: Option<&[u8]>) -> &str {
    std::str::from_utf8(bytes.unwrap_or_default()).unwrap()
}

/// Value of a header as text.
pub fn header(record: &ConsumerRecord, name: &str) -> Option<String> {
    let mut headers = record.headers();
    let found = headers.find(|header| header.key == name.as_bytes())?;
    Some(text(found.value).to_owned())
}
