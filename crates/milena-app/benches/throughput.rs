//! Throughput of an application with empty handlers, compared to a plain consumer.
//!
//! `cargo bench -p milena-app --bench throughput`

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that meets the unexpected should stop there"
)]

use std::{
    sync::{
        Arc, OnceLock,
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
            let counter = Arc::new(Counter::default());
            let app = group(&format!("batch-{order:?}")).state(counter.clone());
            let app = app.batch("events", each_batch, |policy| policy.order(order).batch_size(500));
            let batch = runtime.block_on(timed(app, &counter));
            println!(
                "round {round}: {order:?}, batches {batch:.2} M records/s, {:.0} % of raw",
                batch / raw * 100.0
            );
            let counter = Arc::new(Counter::default());
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

/// Counts records, with the times of the first and the last one. The handlers measure by themselves: an observing task
/// could be late and report too high a rate.
#[derive(Default)]
struct Counter {
    seen: AtomicU64,
    first: OnceLock<Instant>,
    last: OnceLock<Instant>,
}

impl Counter {
    fn add(&self, records: u64) {
        self.first.get_or_init(Instant::now);
        if self.seen.fetch_add(records, Ordering::Relaxed) + records >= RECORDS {
            self.last.get_or_init(Instant::now);
        }
    }
}

async fn each_batch(batch: Batch<Raw>, State(counter): State<Arc<Counter>>) {
    counter.add(batch.len() as u64);
}

async fn each_one(_record: Raw, State(counter): State<Arc<Counter>>) {
    counter.add(1);
}

async fn raw(broker: &TestBroker) -> f64 {
    let config = ConsumerConfig::builder(broker.bootstrap_servers()).set("auto.offset.reset", "earliest");
    let mut consumer = Consumer::new(config).unwrap();
    let partitions = (0..PARTITIONS).map(|partition| TopicPartition::new("events", partition));
    consumer.assign(partitions).unwrap();
    // The measurement starts with the first records here too.
    let mut seen = consumer.poll(Duration::from_secs(10)).await.unwrap().len() as u64;
    let began = Instant::now();
    while seen < RECORDS {
        seen += consumer.poll(Duration::from_secs(10)).await.unwrap().len() as u64;
    }
    rate(began.elapsed())
}

async fn timed(app: App, counter: &Counter) -> f64 {
    let running = app.start().await.unwrap();
    while counter.last.get().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.stop().await.unwrap();
    let (first, last) = (counter.first.get().unwrap(), counter.last.get().unwrap());
    rate(last.duration_since(*first))
}

fn rate(took: Duration) -> f64 {
    RECORDS as f64 / took.as_secs_f64() / 1e6
}
