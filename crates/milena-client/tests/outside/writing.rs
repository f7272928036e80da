//! Records of our producer, read by librdkafka, with and without broker failures.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

use milena_client::{
    config::ProducerConfig,
    consumer::TopicPartition,
    producer::{Deliveries, Header, Producer, ProducerRecord},
};
use tokio::task::block_in_place;

use crate::{
    bed::{self, Bed},
    patience::in_time,
    programs::{kafka_tool, read_all, read_as},
};

const PARTITIONS: usize = 3;
/// Acknowledged records that prove progress.
const ENOUGH: usize = 2_000;

#[tokio::test(flavor = "multi_thread")]
async fn others_read_what_is_written_to_kafka() {
    records_arrive_as_they_were_sent(bed::kafka()).await;
    transactions_are_kafkas(bed::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_read_what_is_written_to_our_broker() {
    records_arrive_as_they_were_sent(bed::ours()).await;
    transactions_are_kafkas(bed::ours()).await;
}

async fn records_arrive_as_they_were_sent(bed: &Bed) {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let topic = bed.topic(&format!("written-{codec}"), 1, "").await;
        let config = ProducerConfig::builder(&bed.address).set("compression.type", codec);
        let producer = Producer::new(config).unwrap();
        let mut deliveries = Deliveries::default();
        let mut expected = vec![];
        for number in 0..500 {
            let (key, value) = (format!("key {number}"), "v".repeat(number));
            let from = number.to_string();
            let headers = [Header::new("from", from.as_bytes())];
            let record = ProducerRecord::new(&topic).key(&key).value(&value).headers(&headers);
            deliveries.push(producer.enqueue(record.timestamp(1_600_000_000_000)).await.unwrap());
            expected.push(format!(
                "{number} 1600000000000 key {} {key} value {number} {value} headers from={from}",
                key.len()
            ));
        }
        producer.close().await.unwrap();
        assert_eq!(deliveries.all().await.unwrap(), 500);
        assert_eq!(
            block_in_place(|| read_all(&bed.address, &topic, 0)),
            expected,
            "{codec}"
        );
    }
}

/// The values of a partition, read by librdkafka.
fn values(bed: &Bed, topic: &str, partition: usize, level: &str) -> Vec<String> {
    read_as(&bed.address, topic, partition, level, "%s\\n")
}

async fn transactions_are_kafkas(bed: &Bed) {
    let topic = bed.topic("in-transactions", 1, "").await;
    let id = format!("writer-{topic}");
    let config = ProducerConfig::builder(&bed.address).set("transactional.id", &id);
    let producer = Producer::new(config).unwrap();
    producer.init_transactions().await.unwrap();
    for round in 0..10 {
        let mut transaction = producer.begin().await.unwrap();
        let value = round.to_string();
        for _ in 0..3 {
            let _sent = transaction
                .enqueue(ProducerRecord::new(&topic).value(&value))
                .await
                .unwrap();
        }
        if round == 0 {
            // Records are enqueued only; the flush starts the transaction that Kafka's tool sees.
            producer.flush().await.unwrap();
            let listed = block_in_place(|| kafka_tool(&bed.address, "transactions", &["list"], ""));
            let line = listed.lines().find(|line| line.contains(&id)).unwrap_or_default();
            assert!(line.contains("Ongoing"), "{listed}");
        }
        match round % 3 {
            2 => transaction.abort().await.unwrap(),
            _ => transaction.commit().await.unwrap(),
        }
    }
    producer.close().await.unwrap();
    let (committed, all) = block_in_place(|| {
        let committed = values(bed, &topic, 0, "read_committed");
        (committed, values(bed, &topic, 0, "read_uncommitted"))
    });
    let expected: Vec<String> = [0, 1, 3, 4, 6, 7, 9]
        .iter()
        .flat_map(|round| vec![round.to_string(); 3])
        .collect();
    assert_eq!(committed, expected);
    assert!(all.len() >= committed.len(), "{all:?}");
}

/// Each record is written once and in order, also after retries.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_or_written_twice_when_brokers_die() {
    let (bed, _turn) = bed::three_brokers().await;
    let topic = bed.topic("never-twice", PARTITIONS, "min.insync.replicas=2").await;
    let producer = Producer::new(ProducerConfig::builder(&bed.address).set("batch.size", 2000)).unwrap();
    let (stops, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut writers = vec![];
    for partition in 0..PARTITIONS {
        let (producer, topic) = (producer.clone(), topic.clone());
        let (stops, written) = (Arc::clone(&stops), Arc::clone(&written));
        writers.push(tokio::spawn(async move {
            let mut number = 0;
            while !stops.load(Relaxed) {
                let mut deliveries = Deliveries::default();
                for _ in 0..100 {
                    let value = number.to_string();
                    let record = ProducerRecord::new(&topic).partition(i32::try_from(partition).unwrap());
                    deliveries.push(producer.enqueue(record.value(&value)).await.unwrap());
                    number += 1;
                }
                written.fetch_add(100, Relaxed);
                deliveries.all().await.unwrap();
            }
            number
        }));
    }
    let goes_on = async |what: &str| {
        let before = written.load(Relaxed);
        in_time(what, async {
            while written.load(Relaxed) < before + ENOUGH {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
    };
    goes_on("all brokers live").await;
    let first = TopicPartition::new(&*topic, 0);
    for _ in 0..2 {
        let leader: u16 = bed.peer.call(&format!("leader {first}")).await.parse().unwrap();
        let cluster = bed.cluster.as_ref().unwrap();
        block_in_place(|| cluster.kill(leader));
        goes_on("the leader is dead").await;
        block_in_place(|| cluster.start_again(leader));
        goes_on("the leader is back").await;
    }
    stops.store(true, Relaxed);
    for (partition, writer) in writers.into_iter().enumerate() {
        let count: usize = in_time("the writer ends", writer).await.unwrap();
        let expected: Vec<String> = (0..count).map(|number| number.to_string()).collect();
        let found = block_in_place(|| values(bed, &topic, partition, "read_uncommitted"));
        assert!(found == expected, "{} records instead of {count}", found.len());
    }
    producer.close().await.unwrap();
}
