//! `milena perf produce`: measures sending.

use std::time::Instant;

use anyhow::Result;
use milena_client::producer::{Deliveries, ProducerRecord};
use serde_json::json;

use super::usage;
use crate::connection::{self, ConnectionArguments};

pub(super) const HELP: &str = "\
Fields of the line:
  records        records acknowledged: exactly N
  bytes          bytes of their values
  seconds        time from the first record to the last acknowledgement
  cpu_seconds    CPU time of this process, all threads, user and system
  max_rss_bytes  peak resident memory of this process";

/// The number of deliveries that are collected before they are awaited.
const COLLECTED_MAX: u64 = 1_000_000;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Topic to send to
    #[arg(value_name = "TOPIC", required_unless_present = "topic")]
    name: Option<String>,
    /// Same as TOPIC
    #[arg(short, long, conflicts_with = "name")]
    topic: Option<String>,
    /// Number of records to send
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Size of each value in bytes
    #[arg(short, long, value_name = "BYTES", default_value_t = 100)]
    size: usize,
    #[command(flatten)]
    connection: ConnectionArguments,
}

impl Arguments {
    fn topic(&self) -> &str {
        self.name.as_ref().or(self.topic.as_ref()).map_or("", String::as_str)
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    connection::run(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let producer = arguments.connection.producer().await?;
    // Values that compress about as well as text.
    let value: Vec<u8> = (0..arguments.size).map(|place| b'a' + (place * 7 % 23) as u8).collect();
    let first = Instant::now();
    let mut deliveries = Deliveries::default();
    let mut written = 0;
    for number in 1..=arguments.records {
        let record = ProducerRecord::new(arguments.topic()).value(&value);
        deliveries.push(producer.enqueue(record).await?);
        if number % COLLECTED_MAX == 0 {
            written += std::mem::take(&mut deliveries).all().await?;
        }
    }
    producer.flush().await?;
    written += deliveries.all().await?;
    let line = json!({
        "records": written,
        "bytes": written * arguments.size as u64,
        "seconds": first.elapsed().as_secs_f64(),
        "cpu_seconds": usage::cpu_seconds(),
        "max_rss_bytes": usage::max_rss_bytes(),
    });
    println!("{line}");
    producer.close().await?;
    Ok(())
}
