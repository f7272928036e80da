//! `milena consume`: prints records.

mod closed;
mod decode;
mod ends;
mod format;
mod json;
mod start;
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
use closed::stdout_closed;
use decode::Decoding;
pub(crate) use ends::Ends;
use format::Format;
pub(crate) use format::escaped;
use start::{Start, Where};

pub(crate) const HELP: &str = "\
Examples:
  milena consume letters                       from the start, then what comes
  milena consume letters words -e              two topics, to their ends
  milena consume '^orders-.*' -g readers       a pattern, as a member of a group
  milena consume letters -o -10 -e -o json     the last 10 of each partition
  milena consume letters -o @-1h -f '%T{iso} %k: %s\\n'

-o takes a place and, as in all other commands, the output format json: both
may be given. Without -n and -e the command goes on until Ctrl-C; a group then
commits what was printed. It also ends when the reader of a pipe is gone.";

/// How long to wait before looking again whether all is read.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const OUTPUT_BUFFER_BYTES: usize = 64 * 1024;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Topics to read; one that begins with ^ is a regular expression
    #[arg(value_name = "TOPIC")]
    names: Vec<String>,
    /// The same as TOPIC; may be repeated
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Read as a member of this group, and commit what was printed
    #[arg(short, long)]
    group: Option<String>,
    /// Read only this partition; may be repeated. A group then only keeps the offsets
    #[arg(short, long, value_name = "NUMBER")]
    partition: Vec<i32>,
    /// Where to begin: start, end, an offset, +N after the start, -N before the end, @TIME as milliseconds, as a date such
    /// as @2026-07-01T08:00:00Z (UTC if no zone is given) or as an age such as @-1h; or json, the same as -f json. With a
    /// group the place is for partitions without a committed offset [default: start]
    #[arg(short, long, visible_alias = "from", value_name = "WHERE", value_parser = start::parse)]
    #[arg(allow_hyphen_values = true)]
    offset: Vec<Where>,
    /// End after so many records
    #[arg(short = 'n', short_alias = 'c', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// End at the end: when all is printed that was there at the start
    #[arg(short, long)]
    exit_at_end: bool,
    /// How to print a record: json, or a text with %t topic, %p partition, %o offset, %k key, %s value, %h headers, %K and
    /// %S lengths of key and value (-1 for none), %T timestamp in milliseconds, %T{s}, %T{iso}, %T{%F %T.%L} in other forms,
    /// %% a percent sign; \n \r \t \0 \\ as usual [default: %s\n]
    #[arg(short, long, alias = "output", value_parser = format::parse)]
    format: Option<Format>,
    #[command(flatten)]
    connection: ConnectionArguments,
}

impl Arguments {
    /// The place to begin, if one is named.
    fn start(&self) -> Result<Option<Start>> {
        let mut starts = self.offset.iter().filter_map(|place| match place {
            Where::Start(start) => Some(*start),
            Where::Json => None,
        });
        let start = starts.next();
        ensure!(starts.next().is_none(), "-o names two places to begin; give one");
        Ok(start)
    }

    fn format(&self) -> Result<Format> {
        let is_json = self.offset.contains(&Where::Json);
        match &self.format {
            Some(format) if is_json && *format != Format::Json => bail!("-o json and another -f exclude each other"),
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
        () = signals.received() => bail!("interrupted while closing; the last offsets may not be committed"),
    };
    outcome?;
    Ok(closed?)
}

async fn read(consumer: &mut Consumer, arguments: &Arguments, printer: &mut Printer<'_>) -> Result<()> {
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
            "{partition} cannot be read at offset {offset}: {problem}; to read what is behind it, try: milena consume {} -p {} -o {}",
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
            self.format.write(&mut self.out, &record, self.decoding)?;
        }
        if self.flushes_always {
            self.out.flush()?;
        }
        self.left = self.left.map(|left| left - count as u64);
        Ok(count)
    }
}
