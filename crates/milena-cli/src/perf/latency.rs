//! `milena perf latency`: measures the time from sending a record to reading it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use milena_client::{
    consumer::{Consumer, TopicPartition},
    producer::ProducerRecord,
};
use serde_json::json;

use crate::connection::{self, ConnectionArguments};

pub(super) const HELP: &str = "\
Sends one record at a time, waits for its acknowledgement, and reads it. The
line has p50, p90, p99, p999 and max in milliseconds for `acknowledged` (from
send to acknowledgement) and `read` (from send to poll). The topic should have no
other producer. Configs given with -X must be valid for producers and consumers.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Topic to send to; only its partition 0 is used
    #[arg(value_name = "TOPIC", required_unless_present = "topic")]
    name: Option<String>,
    /// Same as TOPIC
    #[arg(short, long, conflicts_with = "name")]
    topic: Option<String>,
    /// Number of records to send
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
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

/// The time limit of a record.
const RECORD_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    connection::run(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let producer = arguments.connection.producer().await?;
    let mut consumer = arguments.connection.consumer(&[], &[]).await?;
    connection::partitions(&mut consumer, arguments.topic()).await?;
    let partition = TopicPartition::new(arguments.topic(), 0);
    consumer.assign([partition.clone()])?;
    consumer.seek_to_end(std::slice::from_ref(&partition))?;
    consumer.position(&partition).await?;
    let value = vec![b'x'; arguments.size];
    let (mut acknowledged, mut read) = (vec![], vec![]);
    for _ in 0..arguments.records {
        let began = Instant::now();
        let record = ProducerRecord::new(arguments.topic()).partition(0).value(&value);
        let written = producer.send(record).await?;
        acknowledged.push(began.elapsed());
        read_up_to(&mut consumer, written.offset).await?;
        read.push(began.elapsed());
    }
    println!(
        "{}",
        json!({
            "records": arguments.records,
            "acknowledged": percentiles(acknowledged),
            "read": percentiles(read),
        })
    );
    producer.close().await?;
    consumer.close().await?;
    Ok(())
}

async fn read_up_to(consumer: &mut Consumer, offset: Option<i64>) -> Result<()> {
    loop {
        let records = consumer.poll(RECORD_TIMEOUT).await?;
        ensure!(
            !records.is_empty(),
            "record not read within {} s",
            RECORD_TIMEOUT.as_secs()
        );
        if records
            .iter()
            .any(|record| offset.is_none_or(|offset| record.offset() >= offset))
        {
            return Ok(());
        }
    }
}

fn percentiles(mut times: Vec<Duration>) -> serde_json::Value {
    times.sort_unstable();
    let at = |part: f64| {
        let place = (times.len() as f64 * part).ceil() as usize;
        let time = times.get(place.saturating_sub(1).min(times.len() - 1));
        time.map(|time| time.as_secs_f64() * 1e3)
    };
    json!({ "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p999": at(0.999), "max": at(1.0) })
}
