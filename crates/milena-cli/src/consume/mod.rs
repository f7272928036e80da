//! `milena consume`: prints records.

mod ends;
mod format;
mod json;
mod start;

use std::{
    collections::BTreeSet,
    io::{BufWriter, StdoutLock, Write as _, stdout},
    time::Duration,
};

use anyhow::{Error, Result, bail};
use milena_client::consumer::{Consumer, ConsumerRecords, PollError, TopicPartition};

use crate::{
    cluster::{self, ClusterArguments},
    signals::Signals,
};
use ends::Ends;
use format::Format;
use start::Start;
pub(crate) use start::parse_time;

pub(crate) const HELP: &str = "\
Examples:
  milena consume -b localhost:9092 -t letters --exit-at-end
  milena consume -b localhost:9092 -t letters -g readers -n 10 -f json
  milena consume -b localhost:9092 -t letters --from time:2026-07-01T08:00:00Z -f '%T %k: %s\\n'

Without -n and --exit-at-end it goes on until Ctrl-C. What a group has been given is committed then.";

/// How long to wait before looking again whether all is read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const OUTPUT_BUFFER_BYTES: usize = 64 * 1024;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// The topic to read
    #[arg(short, long)]
    topic: String,
    /// Read as a member of this group, and commit what was printed
    #[arg(short, long)]
    group: Option<String>,
    /// Read only this partition; may be repeated. A group then only keeps the offsets
    #[arg(long, value_name = "NUMBER")]
    partition: Vec<i32>,
    /// Where to begin: earliest, latest, offset:N, time:MILLISECONDS or time:2026-07-01T08:00:00Z (UTC if no zone is
    /// given). With a group this is for partitions without a committed offset. [default: earliest]
    #[arg(long, value_name = "WHERE", value_parser = start::parse)]
    from: Option<Start>,
    /// End after so many records
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// End when everything is printed that was there when the command looked first
    #[arg(long)]
    exit_at_end: bool,
    /// How to print a record: json, or a text with %t topic, %p partition, %o offset, %k key, %s value, %T timestamp,
    /// %h headers, %K and %S lengths of key and value (-1 for none), %% a percent sign; \n \r \t \0 \\ as usual
    #[arg(short, long, value_parser = format::parse, default_value = "%s\\n")]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    cluster::run(consume(arguments))
}

async fn consume(arguments: &Arguments) -> Result<()> {
    let mut signals = Signals::new()?;
    let defaults = [("auto.offset.reset", "earliest"), ("allow.auto.create.topics", "false")];
    let flags = [("-g", "group.id", arguments.group.as_deref())];
    let mut consumer = arguments.cluster.consumer(&defaults, &flags)?;
    let mut printer = Printer {
        out: BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, stdout().lock()),
        format: &arguments.format,
        left: arguments.records,
        flushes_always: consumer.config().group_id.is_some(),
    };
    let outcome = tokio::select! {
        outcome = read(&mut consumer, arguments, &mut printer) => outcome,
        () = signals.received() => Ok(()),
    };
    let outcome = outcome.and_then(|()| Ok(printer.out.flush()?));
    let closed = tokio::select! {
        closed = consumer.close() => closed,
        () = signals.received() => bail!("interrupted while closing; the last offsets may not be committed"),
    };
    outcome?;
    Ok(closed?)
}

async fn read(consumer: &mut Consumer, arguments: &Arguments, printer: &mut Printer<'_>) -> Result<()> {
    choose_partitions(consumer, arguments).await?;
    let mut ends = Ends::default();
    loop {
        let mut records = consumer.poll(Duration::ZERO).await.map_err(explain)?;
        if records.is_empty() {
            // Somebody may be looking, and there is time now.
            printer.out.flush()?;
            if arguments.exit_at_end && ends.are_reached(consumer).await? {
                return Ok(());
            }
            let wait = if arguments.exit_at_end {
                LOOK_AGAIN
            } else {
                Duration::MAX
            };
            records = consumer.poll(wait).await.map_err(explain)?;
        }
        match printer.print(&records) {
            Ok(printed) if printed == records.len() => {}
            Ok(printed) => give_back(consumer, &records, printed)?,
            Err(error) => {
                give_back(consumer, &records, 0)?;
                return Err(error);
            }
        }
        if printer.left == Some(0) {
            return Ok(());
        }
    }
}

async fn choose_partitions(consumer: &mut Consumer, arguments: &Arguments) -> Result<()> {
    let topic = arguments.topic.as_str();
    let infos = cluster::partitions(consumer, topic).await?;
    let by_hand = !arguments.partition.is_empty();
    if consumer.config().group_id.is_some() && !by_hand {
        return match arguments.from {
            Some(start) => Ok(consumer.subscribe_with([topic], start)?),
            None => Ok(consumer.subscribe([topic])?),
        };
    }
    let mut partitions: BTreeSet<TopicPartition> = infos.into_iter().map(|info| info.partition).collect();
    if by_hand {
        let count = partitions.len();
        partitions.retain(|partition| arguments.partition.contains(&partition.partition));
        let missing = arguments
            .partition
            .iter()
            .find(|number| !partitions.contains(&TopicPartition::new(topic, **number)));
        if let Some(number) = missing {
            bail!("{topic} has no partition {number}; it has {count}, numbered from 0");
        }
    }
    let partitions: Vec<TopicPartition> = partitions.into_iter().collect();
    consumer.assign(partitions.clone())?;
    match arguments.from {
        Some(start) => start.place(consumer, &partitions).await,
        None => Ok(()),
    }
}

/// What was taken and not printed is for the next reader: it must not be committed.
fn give_back(consumer: &mut Consumer, records: &ConsumerRecords, printed: usize) -> Result<()> {
    let mut given_back = BTreeSet::new();
    for record in records.iter().skip(printed) {
        if given_back.insert(record.topic_partition()) {
            consumer.seek(record.topic_partition(), record.offset())?;
        }
    }
    Ok(())
}

/// What this command's user can do about it.
fn explain(error: PollError) -> Error {
    match error {
        PollError::Listener(error) => Error::from_boxed(error),
        PollError::Unreadable {
            partition,
            offset,
            next_offset,
            problem,
        } => anyhow::anyhow!(
            "{partition} cannot be read at offset {offset}: {problem}; to read what is behind it, try --partition {} \
             --from offset:{}",
            partition.partition,
            next_offset
        ),
        error => error.into(),
    }
}

struct Printer<'a> {
    out: BufWriter<StdoutLock<'static>>,
    format: &'a Format,
    /// How many may still be printed.
    left: Option<u64>,
    /// What may be committed soon must be out.
    flushes_always: bool,
}

impl Printer<'_> {
    /// Prints as many as may be, and says how many that were.
    fn print(&mut self, records: &ConsumerRecords) -> Result<usize> {
        let left = self
            .left
            .map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let count = records.len().min(left);
        for record in records.iter().take(count) {
            self.format.write(&mut self.out, &record)?;
        }
        if self.flushes_always {
            self.out.flush()?;
        }
        self.left = self.left.map(|left| left - count as u64);
        Ok(count)
    }
}
