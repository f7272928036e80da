//! The records that readers read, as librdkafka's producer batches them, and the words that are in all records.

use std::{fs, process::Command, time::Duration};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, Producer},
};
use tempfile::NamedTempFile;

use crate::raw::Connection;

/// Content of a topic. Keys have 8 bytes; values are words, so that they compress like text.
#[derive(Clone, Copy)]
pub struct Load {
    pub value_size: usize,
    pub codec: &'static str,
    /// `batch.size` of the producer.
    pub batch_bytes: usize,
}

/// Arguments of the child process that fills a topic.
#[derive(clap::Args)]
pub struct Fill {
    address: String,
    topic: String,
    partitions: i32,
    records: u64,
    value_size: usize,
    codec: String,
    batch_bytes: usize,
}

impl Load {
    /// Creates a topic and fills it, in a separate process: otherwise its memory would be counted for every
    /// reader that is started later.
    pub fn put(&self, address: &str, topic: &str, partitions: i32, records: u64) -> Result<()> {
        Connection::open(address)?.create_topics(&[topic.to_owned()], partitions, &[])?;
        let status = Command::new(std::env::current_exe()?)
            .args(["fill", address, topic, &partitions.to_string(), &records.to_string()])
            .args([&self.value_size.to_string(), self.codec, &self.batch_bytes.to_string()])
            .status()?;
        ensure!(status.success(), "cannot fill {topic}: {status}");
        Ok(())
    }
}

/// The whole life of the child process.
pub fn fill(fill: &Fill) -> Result<()> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &fill.address)
        .set("compression.type", &fill.codec)
        .set("batch.size", fill.batch_bytes.to_string())
        .create()?;
    let mut words = Words::default();
    let mut value = vec![];
    for number in 0..fill.records {
        words.write(&mut value, fill.value_size);
        let partition = (number % fill.partitions as u64) as i32;
        send(&producer, &fill.topic, partition, number, &value)?;
    }
    producer.flush(Duration::from_secs(120)).context("cannot flush")
}

/// A file of words, for writers.
pub fn values_file(bytes: usize) -> Result<NamedTempFile> {
    let file = NamedTempFile::new()?;
    let mut text = vec![];
    Words::default().write(&mut text, bytes);
    fs::write(file.path(), text)?;
    Ok(file)
}

fn send(producer: &BaseProducer, topic: &str, partition: i32, number: u64, value: &[u8]) -> Result<()> {
    let key = number.to_be_bytes();
    let mut record = BaseRecord::to(topic).partition(partition).key(&key).payload(value);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), again)) => {
                producer.poll(Duration::from_millis(10));
                record = again;
            }
            Err((error, _)) => bail!(error),
        }
    }
}

const WORDS: [&str; 32] = [
    "order",
    "customer",
    "shipped",
    "payment",
    "invoice",
    "amount",
    "currency",
    "warehouse",
    "pending",
    "accepted",
    "rejected",
    "delivery",
    "address",
    "street",
    "country",
    "article",
    "quantity",
    "discount",
    "total",
    "reference",
    "created",
    "updated",
    "user",
    "session",
    "request",
    "response",
    "status",
    "error",
    "retry",
    "region",
    "account",
    "balance",
];

/// Words in an order that is the same in every run (xorshift).
struct Words(u64);

impl Default for Words {
    fn default() -> Self {
        Self(88_172_645_463_325_252)
    }
}

impl Words {
    fn write(&mut self, text: &mut Vec<u8>, size: usize) {
        text.clear();
        while text.len() < size {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            text.extend_from_slice(WORDS[(self.0 % 32) as usize].as_bytes());
            text.extend_from_slice(&[
                b'=',
                b'0' + (self.0 >> 8) as u8 % 10,
                b'0' + (self.0 >> 16) as u8 % 10,
                b' ',
            ]);
        }
        text.truncate(size);
    }
}
