//! Failing handlers: dead letters, retry topics, waiting records. Parallel Consumer has none of these.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use milena_client::{
    config::ProducerConfig,
    producer::{Deliveries, Producer, ProducerRecord},
};

use super::{PARTITIONS, job};
use crate::{
    Scale,
    apps::{self, Job, Keys, Runner, Task},
    child::Measured,
    figures::{Bar, Figure, figure},
    peers::{Peer, Running},
    raw::Connection,
    scenarios::{Scenario, percentile},
};

const LETTERS: &str = "dead letters, records/s";
const LATE_P50: &str = "retry after 1 s, late by, p50 ms";
const LATE_P99: &str = "retry after 1 s, late by, p99 ms";
const IN_TOPIC: &str = "100,000 wait in a retry topic, MB";
const IN_PLACE: &str = "100,000 wait in place, MB";

pub const SCENARIO: Scenario = Scenario {
    name: "app-failures",
    with_kafka: true,
    run,
    bars: &[
        (LETTERS, Bar::AtLeast(100_000.0)),
        (LATE_P50, Bar::Shown),
        (LATE_P99, Bar::AtMost(50.0)),
        (IN_TOPIC, Bar::AtMost(50.0)),
        (IN_PLACE, Bar::AtMost(50.0)),
    ],
};

const POISON: u64 = 500_000;
const WAITING: u64 = 100_000;
/// Number of retries, one each millisecond.
const RETRIES: u64 = 5_000;

fn run(peer: Peer, _: &Scale) -> Result<Vec<Figure>> {
    let broker = Running::start(peer)?;
    for (topic, records) in [("poison", POISON), ("in-topic", WAITING), ("in-place", WAITING)] {
        apps::put(&broker.address, topic, PARTITIONS, records, Keys::Even)?;
    }
    let letters = apps::run(Runner::Ours, &job(&broker, "poison", POISON, Task::Poison), None)?;
    let mut late = retries(&job(&broker, "retries", RETRIES, Task::Retry))?;
    late.sort_by(f64::total_cmp);
    let in_topic = apps::run(
        Runner::Ours,
        &job(&broker, "in-topic", WAITING, Task::ParkInTopic),
        None,
    )?;
    let in_place = apps::run(
        Runner::Ours,
        &job(&broker, "in-place", WAITING, Task::ParkInPlace),
        None,
    )?;
    Ok(vec![
        figure(LETTERS, letters.records / letters.seconds),
        figure(LATE_P50, percentile(&late, 0.5)),
        figure(LATE_P99, percentile(&late, 0.99)),
        figure(IN_TOPIC, grown(&in_topic)?),
        figure(IN_PLACE, grown(&in_place)?),
    ])
}

/// Memory growth of the process since before it started to read, in megabytes.
fn grown(measured: &Measured) -> Result<f64> {
    let [(_, before), (_, after)] = measured.times.as_slice() else {
        anyhow::bail!("the application did not tell its memory");
    };
    Ok((*after as f64 - *before as f64) / 1e6)
}

/// Writes records one by one while the application runs; returns the delay of each in milliseconds.
fn retries(job: &Job) -> Result<Vec<f64>> {
    Connection::open(&job.address)?.create_topics(&[job.topic.clone()], PARTITIONS, &[])?;
    let waiting = job.clone();
    let application = std::thread::spawn(move || apps::run(Runner::Ours, &waiting, None));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(write(job))?;
    let measured = application.join().ok().context("the application's thread panicked")??;
    Ok(measured.times.iter().map(|(_, late)| *late as f64 / 1e6).collect())
}

async fn write(job: &Job) -> Result<()> {
    let producer = Producer::new(ProducerConfig::builder(&job.address))?;
    let mut deliveries = Deliveries::default();
    let began = Instant::now();
    for number in 0..job.records {
        let key = format!("key {number}");
        let record = ProducerRecord::new(&job.topic).key(&key).value("try again");
        deliveries.push(producer.enqueue(record).await?);
        let due = Duration::from_millis(number + 1);
        tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
    }
    deliveries.all().await?;
    Ok(producer.close().await?)
}
