//! How many records pass through an application whose handlers do nothing, beside a consumer that only reads.
//!
//! `cargo bench -p milena-app --bench throughput`

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that meets the unexpected should stop there"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use milena_app::prelude::*;
use milena_client::{
    config::ConsumerConfig,
    consumer::{Consumer, TopicPartition},
};
use milena_test::{TestBroker, TestRecord};

const PARTITIONS: i32 = 8;
const BATCHES: u64 = 250;
const BATCH: u64 = 500;
const KEYS: u64 = 1_000;
const RECORDS: u64 = BATCHES * BATCH * PARTITIONS as u64;

fn main() {
    let broker = TestBroker::start();
    broker.create_topic("events", PARTITIONS);
    let mut number = 0;
    for _ in 0..BATCHES {
        for partition in 0..PARTITIONS {
            let records = (0..BATCH).map(|_| {
                number += 1;
                TestRecord::new([b'x'; 100]).key(format!("key {}", number * 7919 % KEYS))
            });
            broker.produce("events", partition, records);
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    for round in 0..3 {
        let raw = runtime.block_on(raw(&broker));
        println!("round {round}: raw consumer {raw:.2} M records/s");
        let group = |kind: &str| App::new(broker.bootstrap_servers()).group(format!("{kind}-{round}"));
        for order in [Order::Key, Order::Partition, Order::Unordered] {
            let counter = Arc::new(AtomicU64::new(0));
            let app = group(&format!("batch-{order:?}")).state(counter.clone());
            let app = app.batch("events", each_batch, |policy| policy.order(order).batch_size(500));
            let batch = runtime.block_on(timed(app, &counter));
            println!(
                "round {round}: {order:?}, batches {batch:.2} M records/s, {:.0} % of raw",
                batch / raw * 100.0
            );
            let counter = Arc::new(AtomicU64::new(0));
            let app = group(&format!("each-{order:?}")).state(counter.clone());
            let each = runtime.block_on(timed(
                app.on("events", each_one, |policy| policy.order(order)),
                &counter,
            ));
            println!(
                "round {round}: {order:?}, one by one {each:.2} M records/s, {:.0} % of raw",
                each / raw * 100.0
            );
        }
    }
}

async fn each_batch(batch: Batch<Raw>, State(counter): State<Arc<AtomicU64>>) {
    counter.fetch_add(batch.len() as u64, Ordering::Relaxed);
}

async fn each_one(_record: Raw, State(counter): State<Arc<AtomicU64>>) {
    counter.fetch_add(1, Ordering::Relaxed);
}

async fn raw(broker: &TestBroker) -> f64 {
    let config = ConsumerConfig::builder(broker.bootstrap_servers()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    let partitions = (0..PARTITIONS).map(|partition| TopicPartition::new("events", partition));
    consumer.assign(partitions).unwrap();
    let began = Instant::now();
    let mut seen = 0;
    while seen < RECORDS {
        seen += consumer.poll(Duration::from_secs(10)).await.unwrap().len() as u64;
    }
    rate(began)
}

async fn timed(app: App, counter: &AtomicU64) -> f64 {
    let running = app.start().await.unwrap();
    while counter.load(Ordering::Relaxed) == 0 {
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    let began = Instant::now();
    while counter.load(Ordering::Relaxed) < RECORDS {
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    let rate = rate(began);
    running.stop().await.unwrap();
    rate
}

fn rate(began: Instant) -> f64 {
    RECORDS as f64 / began.elapsed().as_secs_f64() / 1e6
}
