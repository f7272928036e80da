//! `milena perf consume`: measures reading.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use milena_client::consumer::{Consumer, ConsumerRecords};
use serde_json::json;

use super::usage;
use crate::{
    connection::{self, ConnectionArguments},
    consume::Ends,
    log,
};

pub(super) const HELP: &str = "\
Fields of the line:
  records        records read: exactly N with -n N
  bytes          bytes of their keys and values
  seconds        time from the first records to the last
  seconds_total  time from the start of the command, with connecting and joining
  cpu_seconds    CPU time of this process, all threads, user and system
  wire_bytes     bytes sent by brokers, including records fetched ahead
  max_rss_bytes  peak resident memory of this process";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Topic to read from its beginning
    #[arg(value_name = "TOPIC", required_unless_present = "topic")]
    name: Option<String>,
    /// Same as TOPIC
    #[arg(short, long, conflicts_with = "name")]
    topic: Option<String>,
    /// Number of records to read [default: all that exist at the start]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// Read as a member of this group, which should be new [default: all partitions are assigned]
    #[arg(short, long, value_name = "GROUP")]
    group: Option<String>,
    /// With -n, fail if no record arrives for this long
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    #[command(flatten)]
    connection: ConnectionArguments,
}

impl Arguments {
    fn topic(&self) -> &str {
        self.name.as_ref().or(self.topic.as_ref()).map_or("", String::as_str)
    }
}

/// The interval of checks for the end of all partitions.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    connection::run(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let start = Instant::now();
    let defaults = [("auto.offset.reset", "earliest"), ("allow.auto.create.topics", "false")];
    let flags = [("--group", "group.id", arguments.group.as_deref())];
    let mut consumer = arguments.connection.consumer(&defaults, &flags).await?;
    let partitions = connection::partitions(&mut consumer, arguments.topic()).await?;
    if consumer.config().group_id.is_some() {
        consumer.subscribe([arguments.topic()])?;
    } else {
        consumer.assign(partitions.into_iter().map(|info| info.partition))?;
    }
    let read = read(&mut consumer, arguments).await?;
    let line = json!({
        "records": read.records,
        "bytes": read.bytes,
        "seconds": read.last.duration_since(read.first).as_secs_f64(),
        "seconds_total": read.last.duration_since(start).as_secs_f64(),
        "cpu_seconds": usage::cpu_seconds(),
        "wire_bytes": consumer.metrics().get("incoming-byte-total").map(|bytes| bytes as u64),
        "max_rss_bytes": usage::max_rss_bytes(),
    });
    println!("{line}");
    consumer.close().await?;
    Ok(())
}

struct Measurement {
    records: u64,
    bytes: u64,
    first: Instant,
    last: Instant,
}

async fn read(consumer: &mut Consumer, arguments: &Arguments) -> Result<Measurement> {
    let timeout = Duration::from_secs(arguments.timeout);
    let max = arguments.records.unwrap_or(u64::MAX);
    let (mut totals, mut ends) = (Totals::default(), Ends::default());
    let (mut first, mut last) = (None, Instant::now());
    let mut is_announced = false;
    while totals.records < max {
        let records = consumer.poll(LOOK_AGAIN.min(timeout)).await?;
        if !records.is_empty() {
            let now = Instant::now();
            first.get_or_insert(now);
            totals.touch(&records, max);
            last = Instant::now();
            continue;
        }
        let is_at_end = ends.are_reached(consumer).await?;
        let Some(wanted) = arguments.records else {
            if is_at_end {
                break;
            }
            continue;
        };
        let read = totals.records;
        ensure!(
            last.elapsed() < timeout,
            "no record for {} s after {read} of {wanted} records",
            arguments.timeout
        );
        if is_at_end && !is_announced {
            is_announced = true;
            log::notice(format_args!(
                "end of topic after {read} of {wanted} records; waiting {} s for more (--timeout), Ctrl-C to stop",
                arguments.timeout
            ));
        }
    }
    black_box(&totals);
    Ok(Measurement {
        records: totals.records,
        bytes: totals.bytes,
        first: first.unwrap_or(last),
        last,
    })
}

#[derive(Default)]
struct Totals {
    records: u64,
    bytes: u64,
    /// A sum that forces every record to be read.
    offsets: i64,
}

impl Totals {
    fn touch(&mut self, records: &ConsumerRecords, max: u64) {
        let left = usize::try_from(max - self.records).unwrap_or(usize::MAX);
        for record in records.iter().take(left) {
            let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len) as u64;
            self.records += 1;
            self.bytes += length(record.key()) + length(record.value());
            self.offsets = self.offsets.wrapping_add(record.offset());
        }
    }
}
