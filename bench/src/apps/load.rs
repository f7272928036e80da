//! Topics with keys that come again.

use std::process::Command;

use anyhow::{Result, ensure};
use milena_client::{
    config::ProducerConfig,
    producer::{Deliveries, Producer, ProducerRecord},
};

use crate::raw::Connection;

const KEYS: u64 = 1_000;

/// Distribution of the 1,000 keys. If all keys differed, ordering by key would be cheap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Keys {
    /// All the same.
    Even,
    /// The first twice as often as the second, three times as often as the third: an eighth of all records.
    Zipf,
}

/// Arguments of the child process that fills a topic.
#[derive(clap::Args)]
pub struct FillKeys {
    address: String,
    topic: String,
    partitions: u64,
    records: u64,
    #[arg(value_enum)]
    keys: Keys,
}

/// Creates a topic and fills it with records of 100 B, in a separate process, so that its memory is not counted for
/// the reader.
pub fn put(address: &str, topic: &str, partitions: i32, records: u64, keys: Keys) -> Result<()> {
    Connection::open(address)?.create_topics(&[topic.to_owned()], partitions, &[])?;
    let status = Command::new(std::env::current_exe()?)
        .args([
            "fill-keys",
            address,
            topic,
            &partitions.to_string(),
            &records.to_string(),
        ])
        .arg(format!("{keys:?}").to_lowercase())
        .status()?;
    ensure!(status.success(), "cannot fill {topic}: {status}");
    Ok(())
}

/// The whole life of the child process.
pub fn fill(fill: &FillKeys) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let producer = Producer::new(ProducerConfig::builder(&fill.address).batch_size(100_000))?;
        let mut deliveries = Deliveries::default();
        let mut dice = Dice::new(fill.keys);
        for number in 0..fill.records {
            let key = match fill.keys {
                // Every key in turn, but not in the order of partitions.
                Keys::Even => number * 7_919 % KEYS,
                Keys::Zipf => dice.key(),
            };
            let partition = i32::try_from(key % fill.partitions)?;
            let key = format!("key {key}");
            let record = ProducerRecord::new(&fill.topic)
                .partition(partition)
                .key(&key)
                .value(&[b'x'; 100][..]);
            deliveries.push(producer.enqueue(record).await?);
        }
        deliveries.all().await?;
        Ok(producer.close().await?)
    })
}

/// Keys by chance that is the same in every run (xorshift).
struct Dice {
    state: u64,
    /// Up to which part of all chances each key goes.
    parts: Vec<f64>,
}

impl Dice {
    fn new(keys: Keys) -> Self {
        let mut parts = vec![];
        let mut sum = 0.0;
        if keys == Keys::Zipf {
            for rank in 1..=KEYS {
                sum += 1.0 / rank as f64;
                parts.push(sum);
            }
            parts.iter_mut().for_each(|part| *part /= sum);
        }
        Self {
            state: 88_172_645_463_325_252,
            parts,
        }
    }

    fn key(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let chance = (self.state >> 11) as f64 / (1_u64 << 53) as f64;
        self.parts
            .partition_point(|part| *part < chance)
            .min(self.parts.len() - 1) as u64
    }
}
