//! librdkafka through the crate `rdkafka`. The other producers of the crate are built on this one.

use std::{
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, Sender},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::{
    ClientConfig, ClientContext,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer},
};

use super::{Job, tally::Tally, values::Values};

const PATIENCE: Duration = Duration::from_secs(120);

/// Acknowledged records.
#[derive(Default)]
struct Count(AtomicU64);

impl ClientContext for Count {}

impl ProducerContext for Count {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        if result.is_ok() {
            self.0.fetch_add(1, Relaxed);
        }
    }
}

/// Reports for each record whether it is acknowledged.
struct Tell(Sender<bool>);

impl ClientContext for Tell {}

impl ProducerContext for Tell {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: ()) {
        // The receiver may have given up.
        let _ = self.0.send(result.is_ok());
    }
}

pub fn write(job: &Job) -> Result<()> {
    let values = Values::read(job)?;
    match job.is_timed() {
        true => one_at_a_time(job, &values),
        false => all_at_once(job, &values),
    }
}

fn all_at_once(job: &Job, values: &Values) -> Result<()> {
    let tally = Tally::start(job);
    let producer: BaseProducer<Count> = config(job).create_with_context(Count::default())?;
    for number in 0..job.records {
        send(&producer, job, number, values.get(number))?;
    }
    producer.flush(PATIENCE).context("cannot flush")?;
    tally.report(producer.context().0.load(Relaxed))
}

/// With the producer that polls in a separate thread: a poll of the other one lasts until its timeout.
fn one_at_a_time(job: &Job, values: &Values) -> Result<()> {
    let mut tally = Tally::start(job);
    let (sender, told) = mpsc::channel();
    let producer: ThreadedProducer<Tell> = config(job).create_with_context(Tell(sender))?;
    for number in 0..job.records {
        let key = job.key(number);
        let began = Instant::now();
        let sent = producer.send(record(job, key.as_ref(), values.get(number)));
        sent.map_err(|(error, _)| error)?;
        ensure!(told.recv_timeout(PATIENCE)?, "a record was not written");
        tally.took(began.elapsed());
    }
    tally.report(job.records)
}

fn config(job: &Job) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &job.address)
        .set("enable.idempotence", "true")
        .set("compression.type", &job.codec)
        // The partitioner of the others: the default hashes keys with CRC32.
        .set("partitioner", "murmur2_random");
    if job.is_timed() {
        config.set("linger.ms", "0");
    }
    config
}

fn send(producer: &BaseProducer<Count>, job: &Job, number: u64, value: &[u8]) -> Result<()> {
    let key = job.key(number);
    let mut record = record(job, key.as_ref(), value);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                producer.poll(Duration::from_millis(1));
                record = again;
            }
            Err((error, _)) => bail!(error),
        }
    }
}

fn record<'a>(job: &'a Job, key: Option<&'a [u8; 8]>, value: &'a [u8]) -> BaseRecord<'a, [u8; 8], [u8]> {
    let record = BaseRecord::to(&job.topic).payload(value);
    match key {
        Some(key) => record.key(key),
        None => record,
    }
}
