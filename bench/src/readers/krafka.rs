//! krafka. It reads fastest when neither a poll nor its buffer between polls is limited.

use anyhow::Result;
use krafka::{Kafka, consumer::AutoOffsetReset};

use super::{
    Job,
    tally::{PATIENCE, Tally},
};

pub fn read(job: &Job) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut tally = Tally::start(job);
        let kafka = Kafka::builder(&job.address).connect().await?;
        let mut builder = kafka
            .consumer_without_group()
            .auto_offset_reset(AutoOffsetReset::Earliest);
        builder = match job.poll_records {
            0 => builder.max_poll_records(-1).max_buffered_records(0),
            limit => builder.max_poll_records(limit as i32).max_buffered_records(100_000),
        };
        let consumer = builder.build().await?;
        consumer.assign(&job.topic, (0..job.partitions).collect()).await?;
        while !tally.is_done() {
            let records = consumer.poll(PATIENCE).await?;
            tally.polled(records.is_empty())?;
            for record in &records {
                tally.see(record.key.as_deref(), record.value.as_deref());
            }
        }
        tally.report()?;
        Ok(consumer.close().await?)
    })
}
