//! The producer of the input. Every record that it had acknowledged must be copied.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use milena_client::{
    config::ProducerConfig,
    producer::{Deliveries, Producer, ProducerRecord},
};

use crate::{
    random::Random,
    topics::{INPUT, PARTITIONS, Progress},
};

/// Writes until it is told to stop and everything is acknowledged. Returns the number of records per partition.
pub async fn write(
    address: String,
    seed: u64,
    progress: Arc<Progress>,
    stop: Arc<AtomicBool>,
) -> Result<Vec<usize>, String> {
    // The writer is not under test: it waits for brokers as long as they need.
    let config = ProducerConfig::builder(address)
        .set("delivery.timeout.ms", 600_000)
        .set("max.block.ms", 600_000);
    let producer = Producer::new(config).map_err(|error| error.to_string())?;
    let mut random = Random(seed);
    let mut counts = vec![0_usize; usize::try_from(PARTITIONS).unwrap()];
    let mut deliveries = Deliveries::default();
    while !stop.load(Relaxed) {
        for _ in 0..random.number(0..30) {
            let partition = random.number(0..counts.len());
            let value = counts[partition].to_string();
            counts[partition] += 1;
            progress.written.fetch_add(1, Relaxed);
            let record = ProducerRecord::new(INPUT)
                .partition(i32::try_from(partition).unwrap())
                .value(&value);
            let delivery = producer.enqueue(record).await;
            deliveries.push(delivery.map_err(|error| format!("the writer: {error}"))?);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let written = deliveries.all().await;
    written.map_err(|error| format!("the writer: {error}"))?;
    producer.close().await.map_err(|error| format!("the writer: {error}"))?;
    Ok(counts)
}
