//! The copying process, which the test kills, stops and pauses.

use std::{io::Read, process::ExitCode, thread, time::Duration};

use milena_client::{
    config::{ConsumerConfig, ProducerConfig},
    consumer::{Consumer, RecordRef},
    exactly_once::{ExactlyOnce, Transform},
    producer::{Producer, ProducerRecord, SendError, Transaction},
};
use tokio::sync::Notify;

use crate::topics;

/// The first argument of a copier process. These follow: address, protocol, slot, whether it is a static member,
/// transaction timeout, transaction length.
pub const ROLE: &str = "copy";
/// The exit code of a copier that cannot continue and printed the reason, such as being fenced.
pub const GAVE_UP: u8 = 3;

/// The line that a copier prints with its first record: from then on it owns its `transactional.id`.
pub const AT_WORK: &str = "at work";

struct Copy {
    output: String,
    by_key: String,
    is_at_work: bool,
}

impl Transform for Copy {
    type Error = SendError;

    async fn transform(&mut self, record: RecordRef<'_>, transaction: &Transaction<'_>) -> Result<(), SendError> {
        if !std::mem::replace(&mut self.is_at_work, true) {
            eprintln!("{AT_WORK}");
        }
        let value = record.value().unwrap_or_default();
        let number = String::from_utf8_lossy(value).parse().unwrap();
        let same = ProducerRecord::new(&self.output).partition(record.partition());
        drop(transaction.enqueue(same.value(value)).await?);
        let key = topics::key(record.partition(), number);
        let keyed = ProducerRecord::new(&self.by_key).key(&key).value(value);
        transaction.enqueue(keyed).await.map(drop)
    }
}

pub fn main(words: &[String]) -> ExitCode {
    // The log is kept for the analysis of a failed round.
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
            .init();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.unwrap().block_on(copy(words)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(GAVE_UP)
        }
    }
}

async fn copy(words: &[String]) -> Result<(), String> {
    let [address, protocol, slot, kind, timeout_ms, window_ms] = words else {
        return Err(format!("wrong arguments: {words:?}"));
    };
    let mut consumer = ConsumerConfig::builder(address)
        .group_id(topics::group(protocol))
        .set("group.protocol", protocol)
        .set("enable.auto.commit", false)
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed");
    if protocol == "classic" {
        // A short session timeout, so that a dead member is noticed soon. In the consumer protocol the broker sets it.
        consumer = consumer
            .set("session.timeout.ms", 4_000)
            .set("heartbeat.interval.ms", 300);
    }
    if kind == "static" {
        consumer = consumer.set("group.instance.id", slot);
    }
    let producer = ProducerConfig::builder(address)
        .set("transactional.id", format!("{protocol}-{slot}"))
        .set("transaction.timeout.ms", timeout_ms);
    let consumer = Consumer::new(consumer).map_err(|error| error.to_string())?;
    let producer = Producer::new(producer).map_err(|error| error.to_string())?;
    let copying = ExactlyOnce::new(consumer, producer, [topics::INPUT]).map_err(|error| error.to_string())?;
    let mut copying = copying.window(Duration::from_millis(window_ms.parse().unwrap()), 1_000);
    let mut copy = Copy {
        output: topics::output(protocol),
        by_key: topics::by_key(protocol),
        is_at_work: false,
    };
    copying
        .run_with(&mut copy, input_ends())
        .await
        .map_err(|error| error.to_string())?;
    let (consumer, producer) = copying.into_parts();
    consumer.close().await.map_err(|error| error.to_string())?;
    producer.close().await.map_err(|error| error.to_string())
}

/// The parent closes standard input to stop this process, or exits.
async fn input_ends() {
    let ended = std::sync::Arc::new(Notify::new());
    let ends = std::sync::Arc::clone(&ended);
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut vec![]);
        ends.notify_one();
    });
    ended.notified().await;
}
