//! librdkafka through the crate `rdkafka`. The other consumer of the crate is built on this one.

use anyhow::Result;
use rdkafka::{
    ClientConfig, Message, Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
};

use super::{
    Job,
    tally::{PATIENCE, Tally},
};

pub fn read(job: &Job) -> Result<()> {
    let mut tally = Tally::start(job);
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &job.address)
        // It has to have one, and never joins it.
        .set("group.id", "unused")
        .set("enable.auto.commit", "false")
        // By default it stops to fetch for a second whenever it has 100 000 records of a partition.
        .set("queued.min.messages", "1000000")
        .set("fetch.queue.backoff.ms", "10")
        .create()?;
    let mut partitions = TopicPartitionList::new();
    for partition in 0..job.partitions {
        partitions.add_partition_offset(&job.topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&partitions)?;
    while !tally.is_done() {
        let message = consumer.poll(PATIENCE).transpose()?;
        tally.polled(message.is_none())?;
        if let Some(message) = message {
            tally.see(message.key(), message.payload());
        }
    }
    tally.report()
}
