//! The producer of a topic. Every record that it had acknowledged must be handled.

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
use tokio::task::JoinHandle;

use crate::{environment::PARTITIONS, handled_log::key};

/// The interval between writes.
const PAUSE: Duration = Duration::from_millis(20);

pub struct Load {
    stop: Arc<AtomicBool>,
    writing: JoinHandle<Vec<i64>>,
}

impl Load {
    /// Writes this many records into each partition every 20 ms.
    pub fn start(address: &str, topic: &str, records: i64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let writing = write(address.to_owned(), topic.to_owned(), records, Arc::clone(&stop));
        Self {
            stop,
            writing: tokio::spawn(writing),
        }
    }

    /// Waits for all acknowledgements. Returns the number of records per partition.
    pub async fn end(self) -> Vec<i64> {
        self.stop.store(true, Relaxed);
        self.writing.await.unwrap()
    }
}

async fn write(address: String, topic: String, records: i64, stop: Arc<AtomicBool>) -> Vec<i64> {
    // The producer is not under test: it waits for brokers as long as they need.
    let config = ProducerConfig::builder(address)
        .set("delivery.timeout.ms", 600_000)
        .set("max.block.ms", 600_000);
    let producer = Producer::new(config).unwrap();
    let mut deliveries = Deliveries::default();
    let mut count = 0;
    while !stop.load(Relaxed) {
        for number in count..count + records {
            for partition in 0..PARTITIONS {
                let (key, value) = (key(partition, number), number.to_string());
                let record = ProducerRecord::new(&topic).partition(partition).key(&key).value(&value);
                deliveries.push(producer.enqueue(record).await.unwrap());
            }
        }
        count += records;
        tokio::time::sleep(PAUSE).await;
    }
    deliveries.all().await.unwrap();
    producer.close().await.unwrap();
    vec![count; usize::try_from(PARTITIONS).unwrap()]
}
