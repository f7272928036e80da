//! A record crashes every process that handles it, and the process is restarted each time. After the third crash the
//! record is a dead letter, all others are handled, and the process keeps running.

use std::time::Duration;

use milena_app::failure;
use milena_client::{
    config::{ConsumerConfig, ProducerConfig},
    consumer::{Consumer, ConsumerRecord, TopicPartition},
    producer::{Deliveries, Producer, ProducerRecord},
};

use crate::{
    environment::{Environment, PARTITIONS, until},
    handled_log::{KILLER, key},
    worker::ABORT,
    workers::Workers,
};

const TOPIC: &str = "crash-loop";
const DEAD_LETTERS: &str = "crash-loop.dlq";
/// Records per partition.
const RECORDS: i64 = 400;
/// The default of [`App::crash_limit`](milena_app::App::crash_limit).
const CRASHES: usize = 3;

pub async fn run(env: &Environment) -> String {
    let dir = tempfile::tempdir().unwrap();
    env.create(TOPIC, PARTITIONS).await;
    fill(env).await;
    // In the consumer protocol the broker decides when a member is dead, which takes long.
    let mut workers = Workers::new(env, TOPIC, "classic", dir.path());
    let mut crashes = 0;
    let total = usize::try_from(RECORDS * i64::from(PARTITIONS)).unwrap();
    workers.start("a", ABORT);
    until("all but one are handled", async || {
        if workers.has_died("a") {
            crashes += 1;
            assert!(crashes <= CRASHES + 1, "it does not stop");
            workers.start("a", ABORT);
        }
        workers.handled_log.handled().len() >= total - 1
    })
    .await;
    workers.stop_all().await;
    assert!(!workers.handled_log.handled().contains(&KILLER));
    let counts = vec![RECORDS; usize::try_from(PARTITIONS).unwrap()];
    env.assert_all_committed(&workers.group, TOPIC, &counts).await;

    let (partition, number) = KILLER;
    let record = only_letter(env).await;
    let failure_record = failure::read(record.headers()).unwrap();
    assert_eq!(record.key(), Some(key(partition, number).as_bytes()));
    assert_eq!(record.value(), Some(number.to_string().as_bytes()));
    let origin = (
        failure_record.origin.topic.as_str(),
        failure_record.origin.partition,
        failure_record.origin.offset,
    );
    assert_eq!(origin, (TOPIC, partition, number));
    assert_eq!(failure_record.failure.exception, "crash");
    assert_eq!(usize::try_from(failure_record.attempts).unwrap(), crashes);
    format!("{crashes} crashes, one dead letter, {} records handled", total - 1)
}

async fn only_letter(env: &Environment) -> ConsumerRecord {
    let config = ConsumerConfig::builder(env.address()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    let partitions: Vec<_> = (0..PARTITIONS)
        .map(|of| TopicPartition::new(DEAD_LETTERS, of))
        .collect();
    let ends = consumer.end_offsets(&partitions).await.unwrap();
    assert_eq!(ends.values().sum::<i64>(), 1, "{ends:?}");
    consumer.assign(partitions).unwrap();
    loop {
        let records = consumer.poll(Duration::from_secs(1)).await.unwrap();
        if let Some(record) = records.iter().next() {
            return record.to_owned();
        }
    }
}

async fn fill(env: &Environment) {
    let producer = Producer::new(ProducerConfig::builder(env.address())).unwrap();
    let mut deliveries = Deliveries::default();
    for number in 0..RECORDS {
        for partition in 0..PARTITIONS {
            let (key, value) = (key(partition, number), number.to_string());
            let record = ProducerRecord::new(TOPIC).partition(partition).key(&key).value(&value);
            deliveries.push(producer.enqueue(record).await.unwrap());
        }
    }
    deliveries.all().await.unwrap();
    producer.close().await.unwrap();
}
