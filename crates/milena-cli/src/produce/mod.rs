//! `milena produce`: sends lines as records.

mod line;

use std::{
    fs::File,
    io::{self, BufRead, BufReader},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use milena_client::producer::{Deliveries, Header, Producer, ProducerRecord};

use crate::cluster::{self, ClusterArguments};
use line::Line;

pub(crate) const HELP: &str = "\
Examples:
  echo 'Dear Milena,' | milena produce -b localhost:9092 -t letters
  milena produce -b localhost:9092 -t letters -k vienna -H from=prague letters.txt
  milena consume -b localhost:9092 -t letters --exit-at-end -f json | milena produce -b localhost:9092 -t copy --json

Each line is the value of a record. With --json each line is an object as `milena consume -f json` prints it: key, value and
headers (text, or {\"base64\": …}), partition and timestamp; all of them may be left out. Without a value it is a tombstone.
The command ends when all records are acknowledged.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// The topic to send to
    #[arg(short, long)]
    topic: String,
    /// The key of all records that have none of their own
    #[arg(short, long)]
    key: Option<String>,
    /// A header for all records; may be repeated
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The partition of all records that name none; without it the partitioner chooses
    #[arg(short, long, value_name = "NUMBER")]
    partition: Option<i32>,
    /// Lines are JSON objects
    #[arg(long)]
    json: bool,
    /// What to send; without it, or with -, standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err("it must be KEY=VALUE".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    cluster::run(produce(arguments))
}

async fn produce(arguments: &Arguments) -> Result<()> {
    let producer = arguments.cluster.producer()?;
    let source: Box<dyn BufRead> = match &arguments.file {
        Some(path) if path.as_os_str() != "-" => {
            let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
            Box::new(BufReader::new(file))
        }
        _ => Box::new(io::stdin().lock()),
    };
    let sent = send_lines(&producer, arguments, source).await;
    let closed = producer.close().await;
    let sent = sent?;
    closed?;
    let all = sent.all().await?;
    eprintln!("milena: {all} records written to {}", arguments.topic);
    Ok(())
}

async fn send_lines(producer: &Producer, arguments: &Arguments, mut source: impl BufRead) -> Result<Deliveries> {
    let mut deliveries = Deliveries::default();
    let mut text = Vec::new();
    for number in 1_u64.. {
        text.clear();
        if source.read_until(b'\n', &mut text).context("cannot read on")? == 0 {
            break;
        }
        if text.last() == Some(&b'\n') {
            text.pop();
        }
        let line = if arguments.json {
            match Line::parse(&text) {
                Ok(line) => line,
                Err(error) => bail!("line {number} is not what --json needs: {error}; nothing after it was sent"),
            }
        } else {
            Line::of_value(&text)
        };
        let given = arguments
            .headers
            .iter()
            .map(|(key, value)| Header::new(key, value.as_bytes()));
        let headers: Vec<Header<'_>> = line.headers().chain(given).collect();
        let record = ProducerRecord {
            topic: &arguments.topic,
            partition: line.partition().or(arguments.partition),
            key: line.key().or_else(|| arguments.key.as_deref().map(str::as_bytes)),
            value: line.value(),
            headers: &headers,
            timestamp: line.timestamp(),
        };
        deliveries.push(producer.enqueue(record).await?);
    }
    Ok(deliveries)
}
