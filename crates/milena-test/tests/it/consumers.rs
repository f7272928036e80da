//! Consumers that do not wait long for anything.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use milena_client::{
    config::{ConsumerConfig, ConsumerConfigBuilder},
    consumer::{Consumer, ConsumerRecords, ListenerError, RebalanceConsumer, RebalanceListener, TopicPartition},
};
use milena_test::{Fault, TestBroker};

pub(crate) const SHORT: Duration = Duration::from_millis(20);
pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const PROTOCOLS: [&str; 2] = ["classic", "consumer"];

pub(crate) fn config(broker: &TestBroker) -> ConsumerConfigBuilder {
    ConsumerConfig::builder(broker.bootstrap_servers())
        .set("auto.offset.reset", "earliest")
        .set("retry.backoff.ms", 10)
        .set("retry.backoff.max.ms", 100)
        .set("reconnect.backoff.ms", 10)
        .set("reconnect.backoff.max.ms", 100)
        .set("fetch.max.wait.ms", 100)
}

pub(crate) fn letters() -> TopicPartition {
    TopicPartition::new("letters", 0)
}

/// A consumer with partition 0 of `letters` assigned.
pub(crate) fn reader(config: ConsumerConfigBuilder) -> Consumer {
    let mut consumer = Consumer::new(config).unwrap();
    consumer.assign([letters()]).unwrap();
    consumer
}

pub(crate) fn texts(records: &ConsumerRecords) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    records.iter().map(|record| text(record.value().unwrap())).collect()
}

/// Polls until there are `count` records. Faults meanwhile must not be visible to the application.
pub(crate) async fn read(consumer: &mut Consumer, count: usize) -> Vec<String> {
    let mut values = vec![];
    while values.len() < count {
        let began = Instant::now();
        let records = consumer.poll(LONG).await.unwrap();
        assert!(!records.is_empty() || began.elapsed() < LONG, "nobody woke the poll up");
        values.extend(texts(&records));
    }
    values
}

/// Polls until a fault has struck. There must be nothing to read.
pub(crate) async fn poll_until_struck(consumer: &mut Consumer, fault: &Fault, times: u64) {
    while fault.struck() < times {
        assert_eq!(texts(&consumer.poll(SHORT).await.unwrap()), [""; 0]);
    }
}

/// The calls of a listener.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Mutex<Vec<String>>>);

impl Heard {
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// As in Kafka, a listener may hear of no partitions at all; that is not noted.
    fn note(&self, what: &str, partitions: &[TopicPartition]) {
        if partitions.is_empty() {
            return;
        }
        let partitions: Vec<i32> = partitions.iter().map(|partition| partition.partition).collect();
        self.0.lock().unwrap().push(format!("{what} {partitions:?}"));
    }
}

impl RebalanceListener for Heard {
    async fn assigned(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.note("assigned", partitions);
        Ok(())
    }

    async fn revoked(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.note("revoked", partitions);
        Ok(())
    }

    async fn lost(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        self.note("lost", partitions);
        Ok(())
    }
}

pub(crate) fn member_config(broker: &TestBroker, group: &str, protocol: &str) -> ConsumerConfigBuilder {
    let config = config(broker)
        .group_id(group)
        .set("group.protocol", protocol)
        .set("enable.auto.commit", false);
    match protocol {
        "classic" => config.set("heartbeat.interval.ms", 50),
        _ => config,
    }
}

/// A member that subscribes to `letters`, and the calls of its listener.
pub(crate) fn member(config: ConsumerConfigBuilder) -> (Consumer, Heard) {
    let heard = Heard::default();
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe_with(["letters"], heard.clone()).unwrap();
    (consumer, heard)
}
