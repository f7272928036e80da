//! `milena perf consume`: reads so many records and says what that took.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use milena_client::consumer::{Consumer, ConsumerRecords};
use serde_json::json;

use super::usage;
use crate::cluster::{self, ClusterArguments};

pub(super) const HELP: &str = "\
The line has these figures:
  records        how many were read: exactly N
  bytes          of their keys and values
  seconds        from the moment the first records were there to the last one
  seconds_total  the same from the start of the command, with connecting and joining the group
  cpu_seconds    that this process used until then, in user and in system mode, all threads
  wire_bytes     that brokers sent until then, protocol and what was fetched ahead included
  max_rss_bytes  the most memory of this process that was resident at once";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// The topic to read, from its beginning
    #[arg(short, long)]
    topic: String,
    /// How many records to read
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: u64,
    /// Read as a member of this group, which should be new; without it all partitions are assigned by hand
    #[arg(short, long, value_name = "GROUP")]
    group: Option<String>,
    /// Give up if no record comes for so long
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    cluster::run(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let start = Instant::now();
    let defaults = [("auto.offset.reset", "earliest"), ("allow.auto.create.topics", "false")];
    let flags = [("--group", "group.id", arguments.group.as_deref())];
    let mut consumer = arguments.cluster.consumer(&defaults, &flags)?;
    let partitions = cluster::partitions(&mut consumer, &arguments.topic).await?;
    if consumer.config().group_id.is_some() {
        consumer.subscribe([arguments.topic.as_str()])?;
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

struct Read {
    records: u64,
    bytes: u64,
    first: Instant,
    last: Instant,
}

async fn read(consumer: &mut Consumer, arguments: &Arguments) -> Result<Read> {
    let timeout = Duration::from_secs(arguments.timeout);
    let mut seen = Seen::default();
    let mut first = None;
    let mut last = Instant::now();
    while seen.records < arguments.records {
        let records = consumer.poll(timeout.saturating_sub(last.elapsed())).await?;
        let now = Instant::now();
        if records.is_empty() {
            ensure!(
                last.elapsed() < timeout,
                "no record for {} s after {} of {}",
                arguments.timeout,
                seen.records,
                arguments.records
            );
            continue;
        }
        first.get_or_insert(now);
        seen.touch(&records, arguments.records);
        last = now;
    }
    black_box(&seen);
    let last = Instant::now();
    Ok(Read {
        records: seen.records,
        bytes: seen.bytes,
        first: first.unwrap_or(last),
        last,
    })
}

#[derive(Default)]
struct Seen {
    records: u64,
    bytes: u64,
    /// Sums of what nobody needs, so that it must be read.
    offsets: i64,
}

impl Seen {
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
