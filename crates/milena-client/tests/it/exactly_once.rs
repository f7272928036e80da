//! Exactly-once processing while members join and leave and transforms fail.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use milena_client::{
    admin::Admin,
    config::{AdminConfig, ConsumerConfig, ConsumerConfigBuilder, ProducerConfig, ProducerConfigBuilder},
    consumer::{Consumer, RecordRef, TopicPartition},
    exactly_once::{ExactlyOnce, ExactlyOnceError, PairError, Transform},
    producer::{Producer, ProducerRecord, SendError, Transaction},
};
use tokio::sync::{Notify, watch};

use crate::broker::TestBroker;

const PARTITIONS: i32 = 4;
const RECORDS: usize = 2_000;

/// A member of the group.
fn reader(broker: &TestBroker, protocol: &str) -> ConsumerConfigBuilder {
    let consumer = ConsumerConfig::builder(broker.address())
        .group_id("copiers")
        .set("group.protocol", protocol)
        .set("enable.auto.commit", false)
        .set("auto.offset.reset", "earliest")
        .set("max.poll.records", 7)
        .set("isolation.level", "read_committed");
    match protocol {
        "classic" => consumer.set("heartbeat.interval.ms", 50),
        _ => consumer,
    }
}

fn producer(broker: &TestBroker, instance: &str) -> ProducerConfigBuilder {
    ProducerConfig::builder(broker.address()).set("transactional.id", format!("copier-{instance}"))
}

fn pair(broker: &TestBroker, protocol: &str, instance: &str) -> ExactlyOnce {
    let consumer = reader(broker, protocol);
    let producer = producer(broker, instance);
    let (consumer, producer) = (Consumer::new(consumer).unwrap(), Producer::new(producer).unwrap());
    ExactlyOnce::new(consumer, producer, ["input"])
        .unwrap()
        .window(Duration::from_millis(10), 50)
}

fn broker_with_input() -> TestBroker {
    let broker = TestBroker::start();
    for topic in ["input", "output", "other"] {
        broker.create_topic(topic, PARTITIONS);
    }
    let values: Vec<String> = (0..RECORDS).map(|number| number.to_string()).collect();
    for partition in 0..PARTITIONS {
        let mine = values.iter().skip(usize::try_from(partition).unwrap()).step_by(4);
        let mine: Vec<&str> = mine.map(String::as_str).collect();
        for batch in mine.chunks(10) {
            broker.produce("input", partition, batch);
        }
    }
    broker
}

/// The records of a partition that a `read_committed` consumer sees, up to `count`.
async fn committed(broker: &TestBroker, topic: &str, partition: i32, count: usize) -> Vec<usize> {
    let config = ConsumerConfig::builder(broker.address())
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed");
    let mut consumer = Consumer::new(config).unwrap();
    let place = TopicPartition::new(topic, partition);
    consumer.assign([place.clone()]).unwrap();
    let mut numbers = vec![];
    while numbers.len() < count {
        for record in &consumer.poll(Duration::from_secs(60)).await.unwrap() {
            numbers.push(String::from_utf8_lossy(record.value().unwrap()).parse().unwrap());
        }
    }
    let end = consumer.end_offsets(std::slice::from_ref(&place)).await.unwrap()[&place];
    while consumer.position(&place).await.unwrap().offset < end {
        let more = consumer.poll(Duration::from_secs(60)).await.unwrap();
        assert!(more.is_empty(), "{} records twice", more.len());
    }
    numbers
}

/// Checks that the output has the numbers below `count`, each once and in order.
async fn assert_each_once_in_order(broker: &TestBroker, count: usize) {
    for partition in 0..PARTITIONS {
        let expected: Vec<usize> = (usize::try_from(partition).unwrap()..count).step_by(4).collect();
        assert_eq!(committed(broker, "output", partition, expected.len()).await, expected);
    }
}

/// Copies a record to the same partition of the output.
async fn copy(record: RecordRef<'_>, transaction: &Transaction<'_>) -> Result<(), SendError> {
    let value = record.value().unwrap();
    let copy = ProducerRecord::new("output").partition(record.partition()).value(value);
    transaction.enqueue(copy).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_input_counts_once_while_members_come_and_go() {
    for protocol in ["classic", "consumer"] {
        let broker = Arc::new(broker_with_input());
        let seen = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicBool::new(false));
        let mut members = vec![];
        for member in 0..4_usize {
            let (broker, seen, done) = (Arc::clone(&broker), Arc::clone(&seen), Arc::clone(&done));
            members.push(thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(async move {
                    // Each member joins while others process, and rejoins as if it had been killed.
                    while seen.load(Relaxed) < member * RECORDS / 5 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                    let mut lives = 0;
                    while !done.load(Relaxed) {
                        lives += 1;
                        let mut pair = pair(&broker, protocol, &member.to_string());
                        let handled = AtomicUsize::new(0);
                        let dies = Notify::new();
                        let transform = async |record: RecordRef<'_>, transaction: &Transaction<'_>| {
                            seen.fetch_add(1, Relaxed);
                            if handled.fetch_add(1, Relaxed) == 130 && lives < 4 {
                                dies.notify_one();
                                std::future::pending::<()>().await;
                            }
                            copy(record, transaction).await
                        };
                        let stop = async {
                            while !done.load(Relaxed) {
                                tokio::time::sleep(Duration::from_millis(5)).await;
                            }
                        };
                        tokio::select! {
                            ran = pair.run(transform, stop) => ran.unwrap(),
                            () = dies.notified() => {}
                        }
                    }
                })
            }));
        }
        assert_each_once_in_order(&broker, RECORDS).await;
        done.store(true, Relaxed);
        for member in members {
            member.join().unwrap();
        }
        assert_each_once_in_order(&broker, RECORDS).await;
    }
}

/// Copies records, and counts them.
struct Copying(watch::Sender<usize>);

impl Transform for Copying {
    type Error = SendError;

    async fn transform(&mut self, record: RecordRef<'_>, transaction: &Transaction<'_>) -> Result<(), SendError> {
        self.0.send_modify(|count| *count += 1);
        copy(record, transaction).await
    }
}

/// A consumer joins while a transaction is open, takes half of the partitions, and leaves.
async fn take_half_for_a_while(broker: &TestBroker) {
    let config = reader(broker, "consumer");
    let mut other = Consumer::new(config).unwrap();
    other.subscribe(["input"]).unwrap();
    while other.assignment().len() < 2 {
        other.poll(Duration::from_millis(10)).await.unwrap();
    }
    // The transaction notices it with the next records.
    for partition in 0..PARTITIONS {
        let number = RECORDS + usize::try_from(partition).unwrap();
        broker.produce("input", partition, &[&number.to_string()]);
    }
    other.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stays_is_read_again_when_a_rebalance_takes_the_rest() {
    let broker = broker_with_input();
    let total = RECORDS + 4;
    // Only the end of the input ends a transaction.
    let mut pair = pair(&broker, "consumer", "1").window(Duration::from_secs(60), total);
    let (copied, mut seen) = watch::channel(0);
    let member = tokio::spawn(async move { pair.run_with(&mut Copying(copied), std::future::pending()).await });
    seen.wait_for(|seen| *seen == RECORDS).await.unwrap();
    take_half_for_a_while(&broker).await;
    let copied = tokio::time::timeout(Duration::from_secs(240), assert_each_once_in_order(&broker, total));
    copied.await.expect("not all of the input has had an effect");
    member.abort();
}

/// Waits until the broker has aborted the open transaction because of its timeout.
async fn too_long(broker: &TestBroker) {
    let admin = Admin::new(AdminConfig::builder(broker.address())).unwrap();
    let id = "copier-1";
    while &*admin.describe_transactions([id]).await[id].as_ref().unwrap().state != "CompleteAbort" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_transaction_that_took_too_long_is_made_again() {
    // Either the transform or the commit notices it.
    for learns in [true, false] {
        let broker = broker_with_input();
        let producer = producer(&broker, "1").set("transaction.timeout.ms", 1000);
        let consumer = Consumer::new(reader(&broker, "classic")).unwrap();
        let pair = ExactlyOnce::new(consumer, Producer::new(producer).unwrap(), ["input"]);
        let mut pair = pair.unwrap().window(Duration::from_millis(10), 50);
        let mut is_first = true;
        let transform = async |record: RecordRef<'_>, transaction: &Transaction<'_>| {
            copy(record, transaction).await?;
            if std::mem::take(&mut is_first) {
                let record = ProducerRecord::new("other").value("the transaction has begun");
                transaction.send(record).await?;
                too_long(&broker).await;
                if learns {
                    transaction.send(record).await?;
                }
            }
            Ok::<(), SendError>(())
        };
        pair.run(transform, assert_each_once_in_order(&broker, RECORDS))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn what_would_be_refused_again_ends_it() {
    let broker = broker_with_input();
    broker
        .client()
        .create_topic("small", 1, &[("max.message.bytes", "500")]);
    let large = vec![0; 1000];
    // Either the transform or the commit notices it.
    for learns in [true, false] {
        let mut pair = pair(&broker, "classic", "1");
        let transform = async |_: RecordRef<'_>, transaction: &Transaction<'_>| {
            let record = ProducerRecord::new("small").value(&large);
            match learns {
                true => transaction.send(record).await.map(drop),
                false => transaction.enqueue(record).await.map(drop),
            }
        };
        let ran = tokio::time::timeout(Duration::from_secs(120), pair.run(transform, std::future::pending()));
        let error = ran.await.expect("it goes on for ever").unwrap_err();
        assert!(error.to_string().contains("MESSAGE_TOO_LARGE"), "{error}");
        assert_eq!(matches!(error, ExactlyOnceError::Transform(_)), learns, "{error}");
        let (consumer, producer) = pair.into_parts();
        consumer.close().await.unwrap();
        producer.close().await.unwrap();
    }
}

#[tokio::test]
async fn what_failed_is_made_again_and_counts_once() {
    let broker = broker_with_input();
    let mut pair = pair(&broker, "classic", "1");
    let mut failed = BTreeSet::new();
    loop {
        let transform = async |record: RecordRef<'_>, transaction: &Transaction<'_>| {
            let value = String::from_utf8_lossy(record.value().unwrap()).into_owned();
            copy(record, transaction).await.unwrap();
            // It has written its output before it fails.
            if value.ends_with("77") && failed.insert(value.clone()) {
                return Err(value);
            }
            Ok(())
        };
        match pair.run(transform, assert_each_once_in_order(&broker, RECORDS)).await {
            Ok(()) => break,
            Err(ExactlyOnceError::Transform(value)) => assert!(value.ends_with("77")),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(failed.len(), RECORDS / 100);
}

#[tokio::test]
async fn a_pair_that_cannot_work_is_refused() {
    let broker = TestBroker::start();
    let make = |settings: &[(&str, &str)], transactional: bool| {
        let consumer = ConsumerConfig::builder(broker.address());
        let consumer = settings
            .iter()
            .fold(consumer, |config, (key, value)| config.set(*key, *value));
        let mut producer = ProducerConfig::builder(broker.address());
        if transactional {
            producer = producer.set("transactional.id", "id");
        }
        let (consumer, producer) = (Consumer::new(consumer).unwrap(), Producer::new(producer).unwrap());
        ExactlyOnce::new(consumer, producer, ["input"]).unwrap_err()
    };
    let (group, manual) = (("group.id", "g"), ("enable.auto.commit", "false"));
    let committed = ("isolation.level", "read_committed");
    assert!(matches!(make(&[], true), PairError::NoGroup));
    assert!(matches!(make(&[group, committed], true), PairError::AutoCommit));
    assert!(matches!(make(&[group, manual], true), PairError::ReadsUncommitted));
    assert!(matches!(
        make(&[group, manual, committed], false),
        PairError::NotTransactional
    ));
}
