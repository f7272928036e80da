//! librdkafka through the crate `rdkafka`. The other producers of the crate are built on this one.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::{
    ClientConfig, ClientContext,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext},
};

use super::{Job, tally::Tally, values::Values};

const PATIENCE: Duration = Duration::from_secs(120);

/// What became of the records. Polling tells.
#[derive(Default)]
struct Outcomes {
    acknowledged: AtomicU64,
    failed: AtomicU64,
}

impl ClientContext for Outcomes {}

impl ProducerContext for Outcomes {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        match result {
            Ok(_) => self.acknowledged.fetch_add(1, Relaxed),
            Err(_) => self.failed.fetch_add(1, Relaxed),
        };
    }
}

pub fn write(job: &Job) -> Result<()> {
    let values = Values::read(job)?;
    let mut tally = Tally::start(job);
    let producer: BaseProducer<Outcomes> = config(job).create_with_context(Outcomes::default())?;
    for number in 0..job.records {
        let began = job.is_timed().then(Instant::now);
        send(&producer, job, number, values.get(number))?;
        if let Some(began) = began {
            wait_for(&producer, number + 1)?;
            tally.took(began.elapsed());
        }
    }
    producer.flush(PATIENCE).context("cannot flush")?;
    tally.report(producer.context().acknowledged.load(Relaxed))
}

fn config(job: &Job) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &job.address)
        .set("enable.idempotence", "true")
        .set("compression.type", &job.codec)
        // That of the others: by default it hashes keys by CRC32.
        .set("partitioner", "murmur2_random");
    if job.is_timed() {
        config.set("linger.ms", "0");
    }
    config
}

fn send(producer: &BaseProducer<Outcomes>, job: &Job, number: u64, value: &[u8]) -> Result<()> {
    let key = job.key(number);
    let mut record = BaseRecord::to(&job.topic).payload(value);
    if let Some(key) = &key {
        record = record.key(key);
    }
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                producer.poll(Duration::from_millis(10));
                record = again;
            }
            Err((error, _)) => bail!(error),
        }
    }
}

/// Polls until so many records are acknowledged.
fn wait_for(producer: &BaseProducer<Outcomes>, wanted: u64) -> Result<()> {
    let outcomes = producer.context();
    while outcomes.acknowledged.load(Relaxed) < wanted {
        ensure!(outcomes.failed.load(Relaxed) == 0, "a record was not written");
        producer.poll(PATIENCE);
    }
    Ok(())
}
