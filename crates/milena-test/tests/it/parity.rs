//! The mock behaves like the real consumer: the same code, with the same expectations, drives both.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_client::{
    config::{ConsumerConfig, ConsumerConfigBuilder},
    consumer::{
        CommitError, Consumer, ConsumerApi, ConsumerRecords, ListenerError, OffsetsError, PollError, Position,
        RebalanceApi, RebalanceListener, SeekError, SubscribeError, TopicPartition,
    },
};
use milena_test::{MockConsumer, TestBroker, TestRecord};

use crate::consumers::{LONG, letters, texts};

fn other() -> TopicPartition {
    TopicPartition::new("letters", 1)
}

/// Ten records in the first partition, two in the other.
fn records(partition: &TopicPartition) -> Vec<TestRecord> {
    let count = if partition.partition == 0 { 10 } else { 2 };
    let record = |place: i64| TestRecord::new(format!("{}/{place}", partition.partition)).timestamp(1_000 + place);
    (0..count).map(record).collect()
}

fn config(servers: &str) -> ConsumerConfigBuilder {
    ConsumerConfig::builder(servers)
        .group_id("group")
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", false)
        .set("max.poll.records", 3)
        .set("default.api.timeout.ms", 20_000)
}

fn broker() -> TestBroker {
    let broker = TestBroker::start();
    broker.create_topic("letters", 2);
    for partition in [letters(), other()] {
        broker.produce("letters", partition.partition, records(&partition));
    }
    broker
}

fn mock() -> MockConsumer {
    let consumer = MockConsumer::new(config("mock:9092")).unwrap();
    for partition in [letters(), other()] {
        consumer.script().add_records(&partition, records(&partition));
    }
    consumer
}

/// The next records; a poll may be empty on the way to them.
async fn next<C: ConsumerApi>(consumer: &mut C) -> ConsumerRecords {
    loop {
        let records = consumer.poll(LONG).await.unwrap();
        if !records.is_empty() {
            return records;
        }
    }
}

async fn offset_of<C: ConsumerApi>(consumer: &mut C, partition: &TopicPartition) -> i64 {
    consumer.position(partition).await.unwrap().offset
}

async fn reads_by_hand<C: ConsumerApi>(mut consumer: C) {
    assert!(matches!(
        consumer.poll(Duration::ZERO).await,
        Err(PollError::NotSubscribed)
    ));
    consumer.assign([letters()]).unwrap();
    assert_eq!(consumer.subscribe(["letters"]), Err(SubscribeError::Exclusive));
    assert_eq!(offset_of(&mut consumer, &letters()).await, 0);
    let first = next(&mut consumer).await;
    assert_eq!(texts(&first), ["0/0", "0/1", "0/2"], "no more than max.poll.records");
    let nexts: Vec<_> = first.next_offsets().map(|(_, next)| next.offset).collect();
    assert_eq!(nexts, [3]);
    assert_eq!(offset_of(&mut consumer, &letters()).await, 3);
    assert_eq!(consumer.current_lag(&letters()), Ok(Some(7)));

    consumer.seek(&letters(), 8).unwrap();
    assert_eq!(texts(&next(&mut consumer).await), ["0/8", "0/9"]);
    consumer.seek_to_beginning(&[letters()]).unwrap();
    assert_eq!(texts(&next(&mut consumer).await), ["0/0", "0/1", "0/2"]);
    consumer.seek_to_end(&[letters()]).unwrap();
    assert_eq!(offset_of(&mut consumer, &letters()).await, 10);
    consumer.seek(&letters(), 99).unwrap();
    assert_eq!(
        texts(&next(&mut consumer).await),
        ["0/0", "0/1", "0/2"],
        "reset to the earliest"
    );

    consumer.pause(&[letters()]).unwrap();
    assert!(consumer.poll(Duration::from_millis(20)).await.unwrap().is_empty());
    assert_eq!(consumer.paused().len(), 1);
    assert_eq!(offset_of(&mut consumer, &letters()).await, 3);
    consumer.resume(&[letters()]).unwrap();
    assert_eq!(texts(&next(&mut consumer).await), ["0/3", "0/4", "0/5"]);

    assert_eq!(consumer.seek(&other(), 0), Err(SeekError::NotAssigned(other())));
    assert!(matches!(
        consumer.seek(&letters(), -1),
        Err(SeekError::NegativeOffset { .. })
    ));
    assert_eq!(consumer.pause(&[other()]), Err(SeekError::NotAssigned(other())));
    let error = consumer.position(&other()).await.unwrap_err();
    assert_eq!(error, OffsetsError::NotAssigned(other()));

    // Partitions that stay assigned keep their position.
    consumer.assign([letters(), other()]).unwrap();
    let mut seen = vec![];
    while seen.len() < 6 {
        seen.extend(texts(&next(&mut consumer).await));
    }
    seen.sort();
    assert_eq!(seen, ["0/6", "0/7", "0/8", "0/9", "1/0", "1/1"]);
    consumer.unsubscribe().await.unwrap();
    assert!(consumer.assignment().is_empty());
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn the_real_one_reads_by_hand() {
    let broker = broker();
    reads_by_hand(Consumer::new(config(&broker.bootstrap_servers())).unwrap()).await;
}

#[tokio::test]
async fn the_mock_reads_by_hand() {
    reads_by_hand(mock()).await;
}

async fn answers_and_commits<C: ConsumerApi>(mut consumer: C) {
    consumer.assign([letters(), other()]).unwrap();
    let both = [letters(), other()];
    let ends = consumer.end_offsets(&both).await.unwrap();
    assert_eq!(ends.into_values().collect::<Vec<_>>(), [10, 2]);
    let beginnings = consumer.beginning_offsets(&both).await.unwrap();
    assert_eq!(beginnings.into_values().collect::<Vec<_>>(), [0, 0]);
    let times = BTreeMap::from([(letters(), 1_004), (other(), 5_000)]);
    let found = consumer.offsets_for_times(times).await.unwrap();
    assert_eq!(found.len(), 1, "nothing is so young in the other");
    assert_eq!((found[&letters()].offset, found[&letters()].timestamp), (4, 1_004));
    let early = consumer.offsets_for_times(BTreeMap::from([(letters(), -3)])).await;
    assert!(matches!(early, Err(OffsetsError::NegativeTime { timestamp: -3 })));

    assert!(consumer.committed(&both).await.unwrap().is_empty());
    consumer.seek(&letters(), 5).unwrap();
    consumer.seek_position(&other(), Position::at(1)).unwrap();
    consumer.commit_sync().await.unwrap();
    let committed = consumer.committed(&both).await.unwrap();
    assert_eq!(
        committed.values().map(|committed| committed.offset).collect::<Vec<_>>(),
        [5, 1]
    );
    let mut offsets = committed;
    offsets.get_mut(&letters()).unwrap().offset = 7;
    offsets.remove(&other());
    consumer.commit_offsets_async(offsets.clone()).unwrap().await.unwrap();
    let committed = consumer.committed(&both).await.unwrap();
    assert_eq!(
        committed.values().map(|committed| committed.offset).collect::<Vec<_>>(),
        [7, 1]
    );
    offsets.get_mut(&letters()).unwrap().offset = -7;
    let negative = consumer.commit_offsets_async(offsets).unwrap_err();
    assert!(matches!(negative, CommitError::NegativeOffset { offset: -7, .. }));
    assert_eq!(consumer.group_metadata().unwrap().group_id, "group");
    consumer.wakeup_handle().wakeup();
    assert!(matches!(consumer.poll(LONG).await, Err(PollError::Wakeup)));
    assert!(!next(&mut consumer).await.is_empty());
    consumer.close().await.unwrap();
}

#[tokio::test]
async fn the_real_one_answers_and_commits() {
    let broker = broker();
    answers_and_commits(Consumer::new(config(&broker.bootstrap_servers())).unwrap()).await;
}

#[tokio::test]
async fn the_mock_answers_and_commits() {
    answers_and_commits(mock()).await;
}

async fn has_no_group<C: ConsumerApi>(mut consumer: C) {
    assert_eq!(consumer.subscribe(["letters"]), Err(SubscribeError::NoGroup));
    consumer.assign([letters()]).unwrap();
    assert_eq!(consumer.commit_sync().await, Err(CommitError::NoGroup));
    assert!(matches!(consumer.commit_async(), Err(CommitError::NoGroup)));
    assert_eq!(consumer.committed(&[letters()]).await, Err(OffsetsError::NoGroup));
    assert_eq!(consumer.group_metadata(), None);
    // And no policy either: the application decides.
    let error = consumer.poll(LONG).await.unwrap_err();
    assert!(
        error.to_string().contains("letters-0 has no committed offset"),
        "{error}"
    );
    let error = consumer.position(&letters()).await.unwrap_err();
    assert!(
        error.to_string().contains("letters-0 has no committed offset"),
        "{error}"
    );
    consumer.seek(&letters(), 77).unwrap();
    let error = consumer.poll(LONG).await.unwrap_err();
    assert!(error.to_string().contains("no record at offset 77"), "{error}");
    consumer.seek(&letters(), 9).unwrap();
    assert_eq!(texts(&next(&mut consumer).await), ["0/9"]);
}

fn without_group(servers: &str) -> ConsumerConfigBuilder {
    ConsumerConfig::builder(servers).set("auto.offset.reset", "none")
}

#[tokio::test]
async fn the_real_one_without_a_group() {
    let broker = broker();
    has_no_group(Consumer::new(without_group(&broker.bootstrap_servers())).unwrap()).await;
}

#[tokio::test]
async fn the_mock_without_a_group() {
    let consumer = MockConsumer::new(without_group("mock:9092")).unwrap();
    consumer.script().add_records(&letters(), records(&letters()));
    has_no_group(consumer).await;
}

/// Works with every consumer.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    async fn note<C: RebalanceApi>(&self, what: &str, consumer: &mut C, partitions: &[TopicPartition]) {
        let mut text = what.to_owned();
        for partition in partitions {
            assert!(consumer.assignment().contains(partition));
            let position = consumer.position(partition).await.unwrap();
            text += &format!(" {}@{}", partition.partition, position.offset);
        }
        if !partitions.is_empty() {
            self.0.lock().unwrap().push(text);
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl<C: RebalanceApi> RebalanceListener<C> for Notes {
    async fn assigned(&mut self, consumer: &mut C, partitions: &[TopicPartition]) -> Result<(), ListenerError> {
        self.note("assigned", consumer, partitions).await;
        if partitions.contains(&other()) {
            consumer.seek(&other(), 1)?;
        }
        Ok(())
    }

    async fn revoked(&mut self, consumer: &mut C, partitions: &[TopicPartition]) -> Result<(), ListenerError> {
        consumer.commit_sync().await?;
        self.note("revoked", consumer, partitions).await;
        Ok(())
    }
}

async fn is_a_member<C: ConsumerApi>(mut consumer: C) {
    let notes = Notes::default();
    consumer.subscribe_with(["letters"], notes.clone()).unwrap();
    assert_eq!(consumer.subscription().into_iter().collect::<Vec<_>>(), ["letters"]);
    assert_eq!(consumer.assign([letters()]), Err(SubscribeError::Exclusive));
    let mut seen = vec![];
    while seen.len() < 9 {
        seen.extend(texts(&next(&mut consumer).await));
    }
    assert_eq!(
        notes.take(),
        ["assigned 0@2 1@0"],
        "from what was committed, and the policy"
    );
    seen.sort();
    assert_eq!(
        (&*seen[0], &*seen[8]),
        ("0/2", "1/1"),
        "the listener has skipped a record"
    );
    consumer.close().await.unwrap();
    assert_eq!(notes.take(), ["revoked 0@10 1@2"]);
}

#[tokio::test]
async fn the_real_one_is_a_member() {
    let broker = broker();
    for protocol in ["classic", "consumer"] {
        broker.commit(protocol, "letters", 0, 2);
        let config = config(&broker.bootstrap_servers()).group_id(protocol);
        is_a_member(Consumer::new(config.set("group.protocol", protocol)).unwrap()).await;
        assert_eq!(broker.committed(protocol, "letters", 0), Some(10));
        assert_eq!(broker.committed(protocol, "letters", 1), Some(2));
    }
}

#[tokio::test]
async fn the_mock_is_a_member() {
    let consumer = mock();
    let script = consumer.script();
    script.set_committed(&letters(), 2);
    script.rebalance([letters(), other()]);
    is_a_member(consumer).await;
    assert_eq!(
        (script.committed(&letters()), script.committed(&other())),
        (Some(10), Some(2))
    );
    assert!(script.is_closed());
}
