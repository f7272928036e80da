//! Our consumer, with its default settings.

use anyhow::Result;
use milena_client::{
    config::ConsumerConfig,
    consumer::{Consumer, TopicPartition},
};

use super::{
    Job,
    tally::{PATIENCE, Tally},
};

/// `io` is where its connections for records live.
pub fn read(job: &Job, io: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut tally = Tally::start(job);
        let mut config = ConsumerConfig::builder(&job.address)
            .set("auto.offset.reset", "earliest")
            .set("milena.io", io);
        if job.poll_records > 0 {
            config = config.max_poll_records(job.poll_records);
        }
        let mut consumer = Consumer::new(config)?;
        let partition = |partition| TopicPartition::new(job.topic.as_str(), partition);
        consumer.assign((0..job.partitions).map(partition))?;
        while !tally.is_done() {
            let records = consumer.poll(PATIENCE).await?;
            tally.polled(records.is_empty())?;
            for record in &records {
                tally.see(record.key(), record.value());
            }
        }
        tally.report()?;
        Ok(consumer.close().await?)
    })
}
