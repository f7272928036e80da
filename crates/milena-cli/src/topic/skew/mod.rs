//! `milena topic skew`: the distribution of a topic's records over its partitions.

mod range;
mod show;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail};
use milena_client::{
    consumer::{Consumer, ConsumerRecords, RecordRef, TopicPartition},
    producer::partition::skew::Skew,
};

use crate::{admin_arguments::AdminArguments, connection, signals::Signals};
use range::Range;

pub(super) const HELP: &str = "\
Examples:
  milena topic skew orders
  milena topic skew orders --since 1h --top 10
  milena topic skew orders --last 100000 -o json

Reads up to the end offsets at the start of the command. Bytes are the sizes of
keys, values and headers, uncompressed. Key counts are exact in partitions with
few keys; in others a lower and an upper bound are shown. Ctrl-C stops reading
and prints the result so far.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Topic
    #[arg(value_name = "TOPIC", required_unless_present = "topic")]
    name: Option<String>,
    /// Same as TOPIC
    #[arg(short, long, conflicts_with = "name")]
    topic: Option<String>,
    /// Read only the newest N records (approximately), chosen by time over all partitions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "since")]
    last: Option<u64>,
    /// Read only records of this age or younger, as in 90s, 1h or 7d
    #[arg(long, value_name = "DURATION", value_parser = milena_client::config::parse_time)]
    since: Option<Duration>,
    /// Number of most frequent keys to show per partition
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: u16,
    #[command(flatten)]
    common: AdminArguments,
}

impl Arguments {
    fn topic(&self) -> &str {
        self.name.as_ref().or(self.topic.as_ref()).map_or("", String::as_str)
    }
}

/// The interval of checks for the end of all partitions.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn show_skew(arguments: &Arguments) -> Result<()> {
    let defaults = [("auto.offset.reset", "earliest"), ("allow.auto.create.topics", "false")];
    let mut consumer = arguments.common.connection.consumer(&defaults, &[]).await?;
    let mut signals = Signals::new()?;
    let mut reader = SkewReader::default();
    let outcome = tokio::select! {
        outcome = reader.read(&mut consumer, arguments) => outcome.map(|()| true),
        () = signals.received() => Ok(false),
    };
    let closed = consumer.close().await;
    let is_complete = outcome?;
    let Some(skew) = reader.skew else {
        bail!("interrupted before the first record");
    };
    let report = skew.report();
    let document = show::document(arguments.topic(), &report, is_complete);
    arguments
        .common
        .output
        .print(&document, || show::table(arguments.topic(), &report, is_complete))?;
    Ok(closed?)
}

/// The counts so far, which survive an interruption of the read.
#[derive(Default)]
struct SkewReader {
    skew: Option<Skew>,
    /// End offsets of partitions that are not read to the end yet.
    ends: BTreeMap<TopicPartition, i64>,
}

impl SkewReader {
    async fn read(&mut self, consumer: &mut Consumer, arguments: &Arguments) -> Result<()> {
        let infos = connection::partitions(consumer, arguments.topic()).await?;
        let partitions: Vec<TopicPartition> = infos.into_iter().map(|info| info.partition).collect();
        let range = Range::find(consumer, &partitions, arguments.last, arguments.since).await?;
        let last = partitions
            .iter()
            .map(|partition| partition.partition)
            .max()
            .unwrap_or(-1);
        let skew = Skew::new(usize::try_from(last + 1)?, usize::from(arguments.top));
        let skew = self.skew.insert(skew);
        // Only partitions with records in the range.
        consumer.assign(range.offsets.keys().cloned())?;
        for (partition, (start, end)) in range.offsets {
            consumer.seek(&partition, start)?;
            self.ends.insert(partition, end);
        }
        loop {
            leave_finished(consumer, &mut self.ends).await?;
            if self.ends.is_empty() {
                return Ok(());
            }
            let records = consumer.poll(LOOK_AGAIN).await?;
            count(skew, &self.ends, &records);
        }
    }
}

/// Pauses partitions that are read to their ends. The position decides, because a transaction marker or a compacted gap
/// may follow the last record.
async fn leave_finished(consumer: &mut Consumer, ends: &mut BTreeMap<TopicPartition, i64>) -> Result<()> {
    let mut finished = Vec::new();
    for (partition, end) in ends.iter() {
        if consumer.position(partition).await?.offset >= *end {
            finished.push(partition.clone());
        }
    }
    consumer.pause(&finished)?;
    for partition in finished {
        ends.remove(&partition);
    }
    Ok(())
}

fn count(skew: &mut Skew, ends: &BTreeMap<TopicPartition, i64>, records: &ConsumerRecords) {
    for record in records.iter() {
        if ends
            .get(record.topic_partition())
            .is_some_and(|end| record.offset() < *end)
        {
            skew.add(record.partition(), record.key(), bytes_of(&record));
        }
    }
}

fn bytes_of(record: &RecordRef<'_>) -> usize {
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    let headers = record.headers().map(|header| header.key.len() + length(header.value));
    length(record.key()) + length(record.value()) + headers.sum::<usize>()
}
