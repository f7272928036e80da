//! `milena topic skew`: how unevenly the records of a topic lie in its partitions.

mod range;
mod show;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail};
use milena_client::{
    consumer::{Consumer, ConsumerRecords, RecordRef, TopicPartition},
    producer::partition::skew::Skew,
};

use crate::{common::Common, connection, signals::Signals};
use range::Range;

pub(super) const HELP: &str = "\
Examples:
  milena topic skew orders
  milena topic skew orders --since 1h --top 10
  milena topic skew orders --last 100000 -o json

Records are read to where the topic ended when the command began. Bytes are those
of keys, values and headers, before compression. Counts of keys are exact in
partitions with few of them; else the least and the most that they can be are
shown. Ctrl-C ends reading and shows what was read so far.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The topic to look at
    #[arg(value_name = "TOPIC", required_unless_present = "topic")]
    name: Option<String>,
    /// The same as TOPIC
    #[arg(short, long, conflicts_with = "name")]
    topic: Option<String>,
    /// Look only at the newest records: go as far back in time, in all partitions, as is needed for so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "since")]
    last: Option<u64>,
    /// Look only at records that are not older: a number with ms, s, m, h or d behind it
    #[arg(long, value_name = "DURATION", value_parser = milena_client::config::parse_time)]
    since: Option<Duration>,
    /// How many of the most frequent keys to show for each partition
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: u16,
    #[command(flatten)]
    common: Common,
}

impl Arguments {
    fn topic(&self) -> &str {
        self.name.as_ref().or(self.topic.as_ref()).map_or("", String::as_str)
    }
}

/// How long to wait for records before looking again whether all is read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) async fn show_skew(arguments: &Arguments) -> Result<()> {
    let defaults = [("auto.offset.reset", "earliest"), ("allow.auto.create.topics", "false")];
    let mut consumer = arguments.common.connection.consumer(&defaults, &[]).await?;
    let mut signals = Signals::new()?;
    let mut reading = Reading::default();
    let outcome = tokio::select! {
        outcome = reading.read(&mut consumer, arguments) => outcome.map(|()| true),
        () = signals.received() => Ok(false),
    };
    let closed = consumer.close().await;
    let is_complete = outcome?;
    let Some(skew) = reading.skew else {
        bail!("interrupted before anything was read");
    };
    let report = skew.report();
    let document = show::document(arguments.topic(), &report, is_complete);
    arguments
        .common
        .output
        .print(&document, || show::table(arguments.topic(), &report, is_complete))?;
    Ok(closed?)
}

/// What was read so far; it is still there when reading is interrupted.
#[derive(Default)]
struct Reading {
    skew: Option<Skew>,
    /// Where partitions end that are not yet read to there.
    ends: BTreeMap<TopicPartition, i64>,
}

impl Reading {
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
        // Only those that have something to count.
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

/// Partitions that are read to their ends are read no more. Behind the last record there may be a marker of a transaction,
/// or what compaction took away, so that the position counts.
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
