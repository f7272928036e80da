//! Clients whose record connections run on the application's runtime (`milena.io=runtime`).

use std::{collections::BTreeSet, thread, time::Duration};

use milena_client::{
    config::{ConsumerConfig, ConsumerConfigBuilder, ProducerConfig, ProducerConfigBuilder},
    consumer::{Consumer, TopicPartition},
    producer::{Deliveries, Producer, ProducerRecord},
};
use tokio::runtime::{Builder, Runtime};

use crate::broker::TestBroker;

const PATIENCE: Duration = Duration::from_secs(60);

fn writing(broker: &TestBroker) -> ProducerConfigBuilder {
    ProducerConfig::builder(broker.address()).set("milena.io", "runtime")
}

fn reading(broker: &TestBroker) -> ConsumerConfigBuilder {
    ConsumerConfig::builder(broker.address())
        .set("auto.offset.reset", "earliest")
        .set("milena.io", "runtime")
}

fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()]
        .map(|mut builder| builder.enable_all().build().unwrap())
}

async fn read(consumer: &mut Consumer, count: usize) -> Vec<(i32, i64)> {
    let mut places = vec![];
    while places.len() < count {
        let records = consumer.poll(PATIENCE).await.unwrap();
        places.extend(records.iter().map(|record| (record.partition(), record.offset())));
    }
    places
}

/// The connections of a client, by the labels of their metrics.
fn connections(metrics: &str) -> BTreeSet<&str> {
    let names = metrics.split("node_id=\"").skip(1);
    names.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn all_records_are_written_and_read_in_order() {
    for runtime in runtimes() {
        let broker = TestBroker::start();
        broker.create_topic("letters", 3);
        runtime.block_on(async {
            let producer = Producer::new(writing(&broker)).unwrap();
            let mut deliveries = Deliveries::default();
            for number in 0..20_000 {
                let value = number.to_string();
                let record = ProducerRecord::new("letters").partition(number % 3).value(&value);
                match number % 1000 {
                    0 => drop(producer.send(record).await.unwrap()),
                    _ => deliveries.push(producer.enqueue(record).await.unwrap()),
                }
            }
            producer.flush().await.unwrap();
            assert_eq!(deliveries.all().await.unwrap(), 19_980);
            producer.close().await.unwrap();

            let mut consumer = Consumer::new(reading(&broker).group_id("readers")).unwrap();
            consumer.subscribe(["letters"]).unwrap();
            let places = read(&mut consumer, 20_000).await;
            for partition in 0..3 {
                let offsets = places
                    .iter()
                    .filter(|(of, _)| *of == partition)
                    .map(|(_, offset)| *offset);
                let count = (20_000 - i64::from(partition) + 2) / 3;
                assert!(offsets.eq(0..count), "partition {partition}");
            }
            let metrics = consumer.metrics().to_prometheus();
            let names = connections(&metrics);
            assert!(names.iter().any(|name| name.ends_with("-records")), "{names:?}");
            consumer.close().await.unwrap();
        });
    }
}

/// Connections that end with a runtime are opened again on the io thread.
#[test]
fn clients_outlive_the_runtime_that_they_were_made_on() {
    for gone in runtimes() {
        let broker = TestBroker::start();
        broker.create_topic("letters", 1);
        let (producer, mut consumer) = gone.block_on(async {
            let producer = Producer::new(writing(&broker)).unwrap();
            let mut consumer = Consumer::new(reading(&broker)).unwrap();
            consumer.assign([TopicPartition::new("letters", 0)]).unwrap();
            let record = ProducerRecord::new("letters").value("a");
            producer.send(record).await.unwrap();
            // A fetch is in flight now, and waits at the broker.
            assert_eq!(read(&mut consumer, 1).await, [(0, 0)]);
            (producer, consumer)
        });
        drop(gone);
        let other = Builder::new_current_thread().enable_all().build().unwrap();
        other.block_on(async {
            let record = ProducerRecord::new("letters").value("b");
            assert_eq!(producer.send(record).await.unwrap().offset, Some(1));
            assert_eq!(read(&mut consumer, 1).await, [(0, 1)]);
            consumer.close().await.unwrap();
            producer.close().await.unwrap();
        });
    }
}

/// Heartbeats do not depend on the runtime: a busy member keeps its partitions.
#[test]
fn a_member_whose_runtime_is_blocked_stays_in_its_group() {
    let broker = TestBroker::start();
    broker.create_topic("letters", 1);
    broker.produce("letters", 0, &["a", "b"]);
    let [runtime, _] = runtimes();
    runtime.block_on(async {
        let config = reading(&broker)
            .group_id("readers")
            .set("session.timeout.ms", 6_000)
            .set("heartbeat.interval.ms", 100)
            .set("max.poll.records", 1);
        let mut consumer = Consumer::new(config).unwrap();
        consumer.subscribe(["letters"]).unwrap();
        assert_eq!(read(&mut consumer, 1).await, [(0, 0)]);
        let beats = || heartbeats(&consumer.metrics().to_prometheus());
        let before = beats();
        // Blocks the only thread of the runtime until heartbeats were sent without it.
        while beats() < before + 3.0 {
            thread::yield_now();
        }
        assert_eq!(broker.members_of("readers"), 1);
        assert_eq!(read(&mut consumer, 1).await, [(0, 1)]);
        consumer.close().await.unwrap();
    });
}

fn heartbeats(metrics: &str) -> f64 {
    let line = metrics
        .lines()
        .find(|line| line.contains("heartbeat_total") && !line.starts_with('#'));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap()
}

#[test]
fn without_a_runtime_it_is_refused() {
    let broker = TestBroker::start();
    let said = [
        Consumer::new(reading(&broker)).unwrap_err().to_string(),
        Producer::new(writing(&broker)).unwrap_err().to_string(),
    ];
    for said in said {
        assert!(said.contains("milena.io=runtime needs a tokio runtime"), "{said}");
    }
}
