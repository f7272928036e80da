//! Our own client copies a topic: at least once, and exactly once with a window of 100 ms.

use std::time::{Duration, Instant};

use anyhow::Result;
use milena_client::{
    config::{ConsumerConfig, ConsumerConfigBuilder, ProducerConfig},
    consumer::{Consumer, RecordRef},
    exactly_once::ExactlyOnce,
    producer::{Deliveries, Producer, ProducerRecord, SendError, Transaction},
};
use tokio::sync::Notify;

use super::Scenario;
use crate::{
    Scale,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    races::Load,
    raw::Connection,
};

const AT_LEAST_ONCE: &str = "copy of 100 B, at least once, M/s";
const EXACTLY_ONCE: &str = "copy of 100 B, exactly once, M/s";
const SHARE: &str = "exactly once, % of at least once";

pub const SCENARIO: Scenario = Scenario {
    name: "copy",
    with_kafka: true,
    run,
    bars: &[
        (AT_LEAST_ONCE, Bar::Shown),
        (EXACTLY_ONCE, Bar::Shown),
        (SHARE, Bar::AtLeast(70.0)),
    ],
};

const PARTITIONS: i32 = 6;
const WINDOW: Duration = Duration::from_millis(100);
const POLL: Duration = Duration::from_secs(1);

fn run(peer: Peer, scale: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    let records = scale.megabytes as u64 * 1_000_000 / 100;
    let load = Load {
        value_size: 100,
        codec: "none",
        batch_bytes: 100_000,
    };
    load.put(&broker.address, "letters", PARTITIONS, records)?;
    let copies = ["at-least", "exactly"].map(str::to_owned);
    Connection::open(&broker.address)?.create_topics(&copies, PARTITIONS, &[])?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let at_least = runtime.block_on(at_least_once(&broker.address, records))?;
    let exactly = runtime.block_on(exactly_once(&broker.address, records))?;
    let rate = |time: Duration| records as f64 / time.as_secs_f64() / 1e6;
    Ok(vec![
        figure(AT_LEAST_ONCE, rate(at_least)),
        figure(EXACTLY_ONCE, rate(exactly)),
        figure(SHARE, rate(exactly) / rate(at_least) * 100.0),
    ])
}

fn reading(address: &str, group: &str) -> ConsumerConfigBuilder {
    ConsumerConfig::builder(address)
        .group_id(group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", false)
        .set("max.poll.records", 10_000)
}

/// Commits as often as the other: when all that was read until then is acknowledged.
async fn at_least_once(address: &str, records: u64) -> Result<Duration> {
    let mut consumer = Consumer::new(reading(address, "at-least"))?;
    let producer = Producer::new(ProducerConfig::builder(address).batch_size(100_000))?;
    consumer.subscribe(["letters"])?;
    let (mut copied, mut began, mut committed) = (0, None, Instant::now());
    let mut deliveries = Deliveries::default();
    while copied < records {
        let polled = consumer.poll(POLL).await?;
        began = began.or_else(|| (!polled.is_empty()).then(Instant::now));
        for record in &polled {
            let copy = ProducerRecord::new("at-least").value(record.value().unwrap_or_default());
            deliveries.push(producer.enqueue(copy).await?);
        }
        copied += polled.len() as u64;
        if committed.elapsed() >= WINDOW || copied == records {
            producer.flush().await?;
            std::mem::take(&mut deliveries).all().await?;
            consumer.commit_sync().await?;
            committed = Instant::now();
        }
    }
    let took = began.map_or(Duration::ZERO, |began| began.elapsed());
    producer.close().await?;
    consumer.close().await?;
    Ok(took)
}

async fn exactly_once(address: &str, records: u64) -> Result<Duration> {
    let consumer = Consumer::new(reading(address, "exactly").set("isolation.level", "read_committed"))?;
    let writing = ProducerConfig::builder(address)
        .batch_size(100_000)
        .set("transactional.id", "copier");
    let copying = ExactlyOnce::new(consumer, Producer::new(writing)?, ["letters"])?;
    let mut copying = copying.window(WINDOW, usize::MAX);
    let (mut copied, mut began) = (0, None);
    let all = Notify::new();
    let copy = async |record: RecordRef<'_>, transaction: &Transaction<'_>| {
        began.get_or_insert_with(Instant::now);
        let copy = ProducerRecord::new("exactly").value(record.value().unwrap_or_default());
        let _ = transaction.enqueue(copy).await?;
        copied += 1;
        if copied == records {
            all.notify_one();
        }
        Ok::<(), SendError>(())
    };
    copying.run(copy, all.notified()).await?;
    Ok(began.map_or(Duration::ZERO, |began: Instant| began.elapsed()))
}
