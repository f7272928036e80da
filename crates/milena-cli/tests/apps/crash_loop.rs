//! A record ends the process of whoever handles it, and the process is started anew each time. After the third time the
//! record is among the dead letters, all others are handled, and the process stays.

use std::time::Duration;

use milena_app::failure;
use milena_client::{
    config::{ConsumerConfig, ProducerConfig},
    consumer::{Consumer, ConsumerRecord, TopicPartition},
    producer::{Deliveries, Producer, ProducerRecord},
};

use crate::{
    crew::Crew,
    ledger::{KILLER, key},
    stage::{PARTITIONS, Stage, until},
    worker::ABORT,
};

const TOPIC: &str = "crash-loop";
const LETTERS: &str = "crash-loop.dlq";
/// Of each partition.
const RECORDS: i64 = 400;
/// What [`App::crash_limit`](milena_app::App::crash_limit) is by default.
const CRASHES: usize = 3;

pub async fn run(stage: &Stage) -> String {
    let dir = tempfile::tempdir().unwrap();
    stage.create(TOPIC, PARTITIONS).await;
    fill(stage).await;
    // In the other protocol the broker says when somebody is missed, and that takes long.
    let mut crew = Crew::new(stage, TOPIC, "classic", dir.path());
    let mut crashes = 0;
    let total = usize::try_from(RECORDS * i64::from(PARTITIONS)).unwrap();
    crew.start("a", ABORT);
    until("all but one are handled", async || {
        if crew.has_died("a") {
            crashes += 1;
            assert!(crashes <= CRASHES + 1, "it does not stop");
            crew.start("a", ABORT);
        }
        crew.ledger.handled().len() >= total - 1
    })
    .await;
    crew.stop_all().await;
    assert!(!crew.ledger.handled().contains(&KILLER));
    let counts = vec![RECORDS; usize::try_from(PARTITIONS).unwrap()];
    stage.assert_all_committed(&crew.group, TOPIC, &counts).await;

    let (partition, number) = KILLER;
    let record = only_letter(stage).await;
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

async fn only_letter(stage: &Stage) -> ConsumerRecord {
    let config = ConsumerConfig::builder(stage.address()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    let partitions: Vec<_> = (0..PARTITIONS).map(|of| TopicPartition::new(LETTERS, of)).collect();
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

async fn fill(stage: &Stage) {
    let producer = Producer::new(ProducerConfig::builder(stage.address())).unwrap();
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
