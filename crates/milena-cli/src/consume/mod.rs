//! `milena consume`: prints records.

mod decode;
mod ends;
mod format;
mod json;
mod start_position;
mod stdout_closed;
mod topics;

use std::{
    collections::BTreeSet,
    io::{BufWriter, StdoutLock, Write as _, stdout},
    time::Duration,
};

use anyhow::{Error, Result, bail, ensure};
use milena_client::consumer::{Consumer, ConsumerRecords, PollError};

use crate::{
    connection::{self, ConnectionArguments},
    signals::Signals,
};
use decode::Decoding;
pub(crate) use ends::Ends;
use format::Format;
pub(crate) use format::escaped;
use start_position::{OffsetArgument, StartPosition};
use stdout_closed::stdout_closed;

pub(crate) const HELP: &str = "\
Examples:
  milena consume letters                       from the start, then new records
  milena consume letters words -e              two topics, to their ends
  milena consume '^orders-.*' -g readers       a pattern, in a group
  milena consume letters -o -10 -e -o json     the last 10 of each partition
  milena consume letters -o @-1h -f '%T{iso} %k: %s\\n'

-o sets the start position; -o json sets the output format, as in all other
commands. Both may be given. Without -n and -e the command runs until Ctrl-C,
or until the reader of its output exits. With -g it then commits the printed
records.";

/// The interval of checks for the end of all partitions.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const OUTPUT_BUFFER_BYTES: usize = 64 * 1024;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Topics to read; a name that begins with ^ is a regular expression
    #[arg(value_name = "TOPIC")]
    names: Vec<String>,
    /// Same as TOPIC; may be repeated
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Join this group, and commit the printed records
    #[arg(short, long)]
    group: Option<String>,
    /// Read only this partition; may be repeated. With -g the group only stores offsets
    #[arg(short, long, value_name = "NUMBER")]
    partition: Vec<i32>,
    /// Start position: start, end, an offset, +N after the start, -N before the end, or @TIME: milliseconds, a date
    /// such as @2026-07-01T08:00:00Z (UTC without a zone) or an age such as @-1h. With -g it applies to partitions
    /// without a committed offset. The value json is the same as -f json [default: start]
    #[arg(short, long, visible_alias = "from", value_name = "WHERE", value_parser = start_position::parse)]
    #[arg(allow_hyphen_values = true)]
    offset: Vec<OffsetArgument>,
    /// Exit after N records
    #[arg(short = 'n', short_alias = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// Exit at the end: after all records that existed at the start
    #[arg(short, long)]
    exit_at_end: bool,
    /// Output format: json, or a text with %t topic, %p partition, %o offset, %k key, %s value, %h headers, %K and %S
    /// lengths of key and value (-1 for null), %T timestamp in milliseconds, %T{s}, %T{iso}, %T{%F %T.%L} in other
    /// formats, %% percent sign; \n \r \t \0 \\ as usual [default: %s\n]
    #[arg(short, long, alias = "output", value_parser = format::parse)]
    format: Option<Format>,
    #[command(flatten)]
    connection: ConnectionArguments,
}

impl Arguments {
    /// The start position, if one is given.
    fn start(&self) -> Result<Option<StartPosition>> {
        let mut starts = self.offset.iter().filter_map(|place| match place {
            OffsetArgument::Position(start) => Some(*start),
            OffsetArgument::Json => None,
        });
        let start = starts.next();
        ensure!(starts.next().is_none(), "-o sets two start positions; remove one");
        Ok(start)
    }

    fn format(&self) -> Result<Format> {
        let is_json = self.offset.contains(&OffsetArgument::Json);
        match &self.format {
            Some(format) if is_json && *format != Format::Json => bail!("-o json conflicts with -f; remove one"),
            Some(format) => Ok(format.clone()),
            None if is_json => Ok(Format::Json),
            None => format::parse("%s\\n").map_err(Error::msg),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    connection::run(consume(arguments))
}

async fn consume(arguments: &Arguments) -> Result<()> {
    let (start, format) = (arguments.start()?, arguments.format()?);
    let defaults = [("auto.offset.reset", "earliest"), ("allow.auto.create.topics", "false")];
    let flags = [("-g", "group.id", arguments.group.as_deref())];
    let mut consumer = arguments.connection.consumer(&defaults, &flags).await?;
    let mut signals = Signals::new()?;
    let mut printer = Printer {
        out: BufWriter::with_capacity(OUTPUT_BUFFER_BYTES, stdout().lock()),
        format: &format,
        decoding: Decoding::new(consumer.config()),
        left: arguments.records,
        flushes_always: consumer.config().group_id.is_some(),
    };
    let reading = async {
        topics::choose(&mut consumer, arguments, start).await?;
        read(&mut consumer, arguments, &mut printer).await
    };
    let outcome = tokio::select! {
        outcome = reading => outcome,
        () = signals.received() => Ok(()),
        () = stdout_closed() => Ok(()),
    };
    let outcome = outcome.and_then(|()| Ok(printer.out.flush()?));
    let closed = tokio::select! {
        closed = consumer.close() => closed,
        () = signals.received() => bail!("interrupted while closing; the last printed records may not be committed"),
    };
    outcome?;
    Ok(closed?)
}

async fn read(consumer: &mut Consumer, arguments: &Arguments, printer: &mut Printer<'_>) -> Result<()> {
    let mut ends = Ends::default();
    loop {
        let mut records = consumer.poll(Duration::ZERO).await.map_err(explain)?;
        if records.is_empty() {
            // A person may be watching, and there is nothing else to do now.
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
            Ok(printed) => seek_to_unprinted(consumer, &records, printed)?,
            Err(error) => {
                seek_to_unprinted(consumer, &records, 0)?;
                return Err(error);
            }
        }
        if printer.left == Some(0) {
            return Ok(());
        }
    }
}

/// Seeks back to the first record that was not printed, so that it is not committed.
fn seek_to_unprinted(consumer: &mut Consumer, records: &ConsumerRecords, printed: usize) -> Result<()> {
    let mut sought = BTreeSet::new();
    for record in records.iter().skip(printed) {
        if sought.insert(record.topic_partition()) {
            consumer.seek(record.topic_partition(), record.offset())?;
        }
    }
    Ok(())
}

/// Adds advice for the user of this command.
fn explain(error: PollError) -> Error {
    match error {
        PollError::Listener(error) => Error::from_boxed(error),
        PollError::Unreadable {
            partition,
            offset,
            next_offset,
            problem,
        } => anyhow::anyhow!(
            "cannot read {partition} at offset {offset}: {problem}; to skip it, try: milena consume {} -p {} -o {}",
            partition.topic,
            partition.partition,
            next_offset
        ),
        error => error.into(),
    }
}

struct Printer<'a> {
    out: BufWriter<StdoutLock<'static>>,
    format: &'a Format,
    decoding: Decoding,
    /// The number of records left to print.
    left: Option<u64>,
    /// Flushes after every poll, so that a committed record was printed.
    flushes_always: bool,
}

impl Printer<'_> {
    /// Prints up to the remaining number of records. Returns the number printed.
    fn print(&mut self, records: &ConsumerRecords) -> Result<usize> {
        let left = self
            .left
            .map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        let count = records.len().min(left);
        for record in records.iter().take(count) {
            self.format.write(&mut self.out, &record, self.decoding)?;
        }
        if self.flushes_always {
            self.out.flush()?;
        }
        self.left = self.left.map(|left| left - count as u64);
        Ok(count)
    }
}
