//! `milena produce`: sends lines as records.

mod line;

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

Each line is the value of a record. With --json each line is an object as
`milena consume -f json` prints it: key, value and headers (text, or
{\"base64\": …}), partition and timestamp, all of them optional. An object without
a value is a tombstone. The command exits when all records are acknowledged.";

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
    mut source: impl BufRead,
) -> Result<Deliveries> {
    let mut deliveries = Deliveries::default();
    let mut text = Vec::new();
    for number in 1_u64.. {
        text.clear();
        if source.read_until(b'\n', &mut text).context("cannot read the input")? == 0 {
            break;
        }
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        let line = match (arguments.json, &arguments.key_separator) {
            (false, None) => Line::of_value(&text),
            (false, Some(separator)) => Line::of_key_and_value(&text, separator.as_bytes()),
            (true, _) => match Line::parse(&text) {
                Ok(line) => line,
                Err(error) => bail!("line {number} is not valid for --json: {error}; the lines before it were sent"),
            },
        };
        let given = arguments
            .headers
            .iter()
            .map(|(key, value)| Header::new(key, value.as_bytes()));
        let headers: Vec<Header<'_>> = line.headers().chain(given).collect();
        let is_null = |value: &[u8]| arguments.null_if_empty && value.is_empty();
        let record = ProducerRecord {
            topic,
            partition: line.partition().or(arguments.partition),
            key: line.key().or_else(|| arguments.key.as_deref().map(str::as_bytes)),
            value: line.value().filter(|value| !is_null(value)),
            headers: &headers,
            timestamp: line.timestamp(),
        };
        deliveries.push(producer.enqueue(record).await?);
    }
    Ok(deliveries)
}
