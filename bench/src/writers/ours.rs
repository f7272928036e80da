//! Our producer. One record at a time it has its default settings, and `linger.ms` with them: `send` does not wait for it.

use std::time::Instant;

use anyhow::Result;
use milena_client::{
    config::ProducerConfig,
    producer::{Deliveries, Producer, ProducerRecord},
};

use super::{Job, tally::Tally, values::Values};

/// `io` is where its connections for records live.
pub fn write(job: &Job, io: &str) -> Result<()> {
    let values = Values::read(job)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut tally = Tally::start(job);
        let mut config = ProducerConfig::builder(&job.address)
            .set("compression.type", &job.codec)
            .set("milena.io", io);
        if job.is_tuned() {
            config = config.batch_size(100_000);
        }
        let producer = Producer::new(config)?;
        let acknowledged = match job.is_timed() {
            true => one_at_a_time(&producer, job, &values, &mut tally).await?,
            false => all_at_once(&producer, job, &values).await?,
        };
        tally.report(acknowledged)?;
        Ok(producer.close().await?)
    })
}

async fn all_at_once(producer: &Producer, job: &Job, values: &Values) -> Result<u64> {
    let mut deliveries = Deliveries::default();
    for number in 0..job.records {
        let key = job.key(number);
        let record = record(job, key.as_ref(), values.get(number));
        deliveries.push(producer.enqueue(record).await?);
    }
    producer.flush().await?;
    Ok(deliveries.all().await?)
}

async fn one_at_a_time(producer: &Producer, job: &Job, values: &Values, tally: &mut Tally) -> Result<u64> {
    for number in 0..job.records {
        let key = job.key(number);
        let began = Instant::now();
        producer.send(record(job, key.as_ref(), values.get(number))).await?;
        tally.took(began.elapsed());
    }
    Ok(job.records)
}

#[inline]
fn record<'a>(job: &'a Job, key: Option<&'a [u8; 8]>, value: &'a [u8]) -> ProducerRecord<'a> {
    let record = ProducerRecord::new(&job.topic).value(value);
    match key {
        Some(key) => record.key(key),
        None => record,
    }
}
