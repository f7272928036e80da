//! krafka. Results of single records are not awaited, which is its fastest mode; the offsets of the topic are
//! checked instead.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use bytes::Bytes;
use krafka::{Compression, Kafka, Record, producer::Producer};

use super::{Job, tally::Tally, values::Values};

pub fn write(job: &Job) -> Result<()> {
    let values = Values::read(job)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut tally = Tally::start(job);
        let kafka = Kafka::builder(&job.address).connect().await?;
        let producer = build(&kafka, job).await?;
        for number in 0..job.records {
            let record = record(job, number, &values);
            if job.is_timed() {
                let began = Instant::now();
                drop(producer.send(record).await?);
                tally.took(began.elapsed());
            } else {
                drop(producer.enqueue(record).await?);
            }
        }
        producer.flush().await?;
        tally.report(job.records)?;
        Ok(producer.close().await?)
    })
}

async fn build(kafka: &Kafka, job: &Job) -> Result<Producer> {
    let codec = match job.codec.as_str() {
        "none" => Compression::None,
        "lz4" => Compression::Lz4,
        "zstd" => Compression::Zstd,
        codec => bail!("no codec {codec}"),
    };
    let mut builder = kafka.producer().compression(codec);
    if job.is_tuned() {
        builder = builder.batch_size(100_000);
    }
    if job.is_timed() {
        builder = builder.linger(Duration::ZERO);
    }
    Ok(builder.build().await?)
}

fn record(job: &Job, number: u64, values: &Values) -> Record {
    let record = Record::new(job.topic.as_str(), values.owned(number));
    match job.key(number) {
        Some(key) => record.key(Bytes::copy_from_slice(&key)),
        None => record,
    }
}
