//! `milena produce`: sends lines as records.

mod line;
mod request;

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal as _},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use milena_client::producer::{Deliveries, Header, Producer, ProducerRecord};

use crate::{
    connection::{self, ConnectionArguments},
    consume::escaped,
    log,
    output::counted,
};
use line::Line;

pub(crate) const HELP: &str = "\
Examples:
  echo 'Dear Milena,' | milena produce letters
  echo 'vienna:Dear Milena,' | milena produce letters -K:
  milena produce letters letters.txt -k vienna -H from=prague
  milena consume letters -e -f json | milena produce copy --json
  echo ACME | milena produce quotes.requests --request --timeout 2s

Each line is the value of a record. With --json each line is an object as
`milena consume -f json` prints it: key, value and headers (text, or
{\"base64\": …}), partition and timestamp, all of them optional. An object without
a value is a tombstone. The command exits when all records are acknowledged.

With --request each record is a request, and the values of the replies are
printed in the order of the requests.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Topic to send to
    #[arg(value_name = "TOPIC")]
    name: Option<String>,
    /// File to send [default: standard input]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Same as TOPIC; FILE is then the only argument
    #[arg(short, long)]
    topic: Option<String>,
    /// Key of records without one
    #[arg(short, long)]
    key: Option<String>,
    /// Lines are KEY, this separator and VALUE; a line without it is a value. \t is a tab
    #[arg(short = 'K', long, value_name = "SEPARATOR", value_parser = separator, conflicts_with = "json")]
    key_separator: Option<String>,
    /// Send a null value (tombstone) for an empty one
    #[arg(short = 'Z', long)]
    null_if_empty: bool,
    /// Header of all records; may be repeated
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Partition of records that name none [default: chosen by the partitioner]
    #[arg(short, long, value_name = "NUMBER")]
    partition: Option<i32>,
    /// Lines are JSON objects
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    request: request::RequestArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err("expected KEY=VALUE".to_owned()),
    }
}

fn separator(text: &str) -> Result<String, String> {
    let mut separator = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        separator.push(match letter {
            '\\' => escaped(letters.next())?,
            letter => letter,
        });
    }
    match separator.is_empty() {
        true => Err("expected a text between key and value, as in -K:".to_owned()),
        false => Ok(separator),
    }
}

impl Arguments {
    /// The topic, and the file unless it is standard input.
    fn places(&self) -> Result<(&str, Option<&Path>)> {
        let (topic, file) = match (&self.topic, &self.name, &self.file) {
            (Some(_), Some(name), Some(_)) => {
                bail!("unexpected argument {name}: the topic is set by -t, so only FILE may follow")
            }
            (Some(topic), file, None) => (topic, file.as_deref().map(Path::new)),
            (None, Some(topic), file) => (topic, file.as_deref()),
            (_, None, _) => bail!("no topic given, as in `milena produce letters`"),
        };
        Ok((topic, file.filter(|file| file.as_os_str() != "-")))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    connection::run(produce(arguments))
}

async fn produce(arguments: &Arguments) -> Result<()> {
    let (topic, file) = arguments.places()?;
    let source: Box<dyn BufRead> = match file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(io::stdin().lock()),
    };
    if arguments.request.is_set() {
        return request::send(arguments, topic, source).await;
    }
    let producer = arguments.connection.producer().await?;
    if file.is_none() && io::stdin().is_terminal() {
        log::notice("each line becomes a record; Ctrl-D to finish");
    }
    let sent = send_lines(&producer, arguments, topic, source).await;
    let closed = producer.close().await;
    let sent = sent?;
    closed?;
    let all = sent.all().await?;
    log::notice(format_args!("{} written to {topic}", counted(all, "record")));
    Ok(())
}

async fn send_lines(
    producer: &Producer,
    arguments: &Arguments,
    topic: &str,
    source: impl BufRead,
) -> Result<Deliveries> {
    let mut deliveries = Deliveries::default();
    let mut lines = Lines::new(arguments, source);
    while let Some(line) = lines.next()? {
        let headers = arguments.headers_of(&line);
        let record = arguments.record(topic, &line, &headers);
        deliveries.push(producer.enqueue(record).await?);
    }
    Ok(deliveries)
}

/// Lines of the input, one at a time.
struct Lines<'a, S> {
    arguments: &'a Arguments,
    source: S,
    text: Vec<u8>,
    number: u64,
}

impl<'a, S: BufRead> Lines<'a, S> {
    fn new(arguments: &'a Arguments, source: S) -> Self {
        Self {
            arguments,
            source,
            text: Vec::new(),
            number: 0,
        }
    }

    fn next(&mut self) -> Result<Option<Line<'_>>> {
        self.text.clear();
        self.number += 1;
        let read = self.source.read_until(b'\n', &mut self.text);
        if read.context("cannot read the input")? == 0 {
            return Ok(None);
        }
        if self.text.last() == Some(&b'\n') {
            self.text.pop();
        }
        let line = match (self.arguments.json, &self.arguments.key_separator) {
            (false, None) => Line::of_value(&self.text),
            (false, Some(separator)) => Line::of_key_and_value(&self.text, separator.as_bytes()),
            (true, _) => match Line::parse(&self.text) {
                Ok(line) => line,
                Err(error) => {
                    let number = self.number;
                    bail!("line {number} is not valid for --json: {error}; the lines before it were sent")
                }
            },
        };
        Ok(Some(line))
    }
}

impl Arguments {
    fn headers_of<'a>(&'a self, line: &'a Line<'_>) -> Vec<Header<'a>> {
        let given = self.headers.iter();
        let given = given.map(|(key, value)| Header::new(key, value.as_bytes()));
        line.headers().chain(given).collect()
    }

    fn record<'a>(&'a self, topic: &'a str, line: &'a Line<'_>, headers: &'a [Header<'a>]) -> ProducerRecord<'a> {
        let is_null = |value: &[u8]| self.null_if_empty && value.is_empty();
        ProducerRecord {
            topic,
            partition: line.partition().or(self.partition),
            key: line.key().or_else(|| self.key.as_deref().map(str::as_bytes)),
            value: line.value().filter(|value| !is_null(value)),
            headers,
            timestamp: line.timestamp(),
        }
    }
}
