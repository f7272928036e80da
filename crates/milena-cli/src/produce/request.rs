//! `milena produce --request`: sends lines as requests and prints their replies.

use std::{
    collections::VecDeque,
    io::{self, BufRead, Write},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use milena_app::{
    handler::OutRecord,
    request_reply::{PendingReply, RequestError, Requester, RequesterConfig},
};
use milena_client::{config::parse_time, producer::ProducerRecord};

use super::{Arguments, Lines};
use crate::{log, output::counted};

/// Requests that wait for their replies; further lines are read when the first has ended.
const PENDING_MAX: usize = 1_000;

#[derive(clap::Args)]
pub(super) struct RequestArguments {
    /// Send requests, and print the values of their replies
    #[arg(short, long, conflicts_with = "null_if_empty")]
    request: bool,
    /// Time limit of each reply, as in 500ms or 30s [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_time, requires = "request")]
    timeout: Option<Duration>,
    /// Topic for the replies [default: replies]
    #[arg(long, value_name = "TOPIC", requires = "request")]
    reply_topic: Option<String>,
}

impl RequestArguments {
    pub(super) fn is_set(&self) -> bool {
        self.request
    }
}

pub(super) async fn send(arguments: &Arguments, topic: &str, source: impl BufRead) -> Result<()> {
    let mut config = RequesterConfig::with_settings(arguments.connection.settings().await?);
    if let Some(timeout) = arguments.request.timeout {
        config = config.timeout(timeout);
    }
    if let Some(reply_topic) = &arguments.request.reply_topic {
        config = config.reply_topic(reply_topic);
    }
    let requester = Requester::start(config).await?;
    let mut lines = Lines::new(arguments, source);
    let mut replies = Replies::default();
    while let Some(line) = lines.next()? {
        let headers = arguments.headers_of(&line);
        let request = requester.request_record(owned(arguments.record(topic, &line, &headers)));
        if replies.pending.len() >= PENDING_MAX {
            replies.print_next().await?;
        }
        match request.begin().await {
            Ok(pending) => replies.pending.push_back(pending),
            Err(error) => replies.failed(&error),
        }
    }
    while replies.print_next().await? {}
    requester.close().await;
    if replies.failures > 0 {
        bail!("{} got no reply", counted(replies.failures, "request"));
    }
    Ok(())
}

/// Replies in the order of their requests.
#[derive(Default)]
struct Replies {
    pending: VecDeque<PendingReply>,
    failures: u64,
}

impl Replies {
    /// Returns `false` if no request is left.
    async fn print_next(&mut self) -> Result<bool> {
        let Some(pending) = self.pending.pop_front() else {
            return Ok(false);
        };
        match pending.await {
            Ok(reply) => {
                let mut out = io::stdout().lock();
                out.write_all(reply.value().unwrap_or_default())
                    .and_then(|()| out.write_all(b"\n"))
                    .and_then(|()| out.flush())
                    .context("cannot print a reply")?;
            }
            Err(error) => self.failed(&error),
        }
        Ok(true)
    }

    fn failed(&mut self, error: &RequestError) {
        self.failures += 1;
        log::notice(error);
    }
}

fn owned(record: ProducerRecord<'_>) -> OutRecord {
    let headers = record.headers.iter().map(|header| {
        let value = header.value.map(Bytes::copy_from_slice);
        (Bytes::copy_from_slice(header.key), value)
    });
    OutRecord {
        topic: record.topic.to_owned(),
        partition: record.partition,
        key: record.key.map(Bytes::copy_from_slice),
        value: record.value.map(Bytes::copy_from_slice),
        headers: headers.collect(),
        timestamp: record.timestamp,
    }
}
