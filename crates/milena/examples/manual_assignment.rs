//! A replay without a group: reads all partitions of the topic `letters` from a time up to the current end.
//!
//! `cargo run -p milena --example manual_assignment -- 127.0.0.1:9092 1782892800000`; the time is in milliseconds since
//! 1970.

use std::{collections::BTreeMap, error::Error, time::Duration};

use milena::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let bootstrap = arguments.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let since_ms = arguments.next().map_or(Ok(0), |since_ms| since_ms.parse())?;
    let print = |record: RecordRef<'_>| {
        let value = String::from_utf8_lossy(record.value().unwrap_or_default());
        println!("{} {}: {value}", record.timestamp(), record.topic_partition());
    };
    run(&bootstrap, since_ms, print).await
}

pub async fn run(bootstrap: &str, since_ms: i64, mut handle: impl FnMut(RecordRef<'_>)) -> Result<(), Box<dyn Error>> {
    // Without a group there are no committed offsets, so the program sets the positions.
    let mut consumer = Consumer::new(ConsumerConfig::builder(bootstrap))?;
    let partitions = consumer.partitions_for("letters").await?.into_iter();
    let partitions: Vec<TopicPartition> = partitions.map(|info| info.partition).collect();
    consumer.assign(partitions.clone())?;

    let times = partitions.iter().map(|partition| (partition.clone(), since_ms));
    let found = consumer.offsets_for_times(times).await?;
    for partition in &partitions {
        match found.get(partition) {
            Some(first) => consumer.seek(partition, first.offset)?,
            // All records of the partition are older.
            None => consumer.seek_to_end([partition])?,
        }
    }

    let ends = consumer.end_offsets(&partitions).await?;
    while !is_finished(&mut consumer, &ends).await? {
        let records = consumer.poll(Duration::from_secs(1)).await?;
        records.iter().for_each(&mut handle);
    }
    consumer.close().await?;
    Ok(())
}

async fn is_finished(consumer: &mut Consumer, ends: &BTreeMap<TopicPartition, i64>) -> Result<bool, Box<dyn Error>> {
    for (partition, end) in ends {
        if consumer.position(partition).await?.offset < *end {
            return Ok(false);
        }
    }
    Ok(true)
}
