//! Checks of the outputs, during the round and at its end.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use milena_client::{
    admin::Admin,
    config::{AdminConfig, ConsumerConfig},
    consumer::{Consumer, RecordRef, TopicPartition},
};
use tokio::sync::watch;

use crate::{
    programs::read_as,
    topics::{self, INPUT, KEYS, PARTITIONS, PROTOCOLS, Progress},
};

const POLL: Duration = Duration::from_millis(200);
/// The longest time without a new record while records are missing.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Reads the committed records of an output. Each number must be the successor of the last one of its partition or key.
pub struct Checker {
    consumer: Consumer,
    /// The next number of each partition of an output.
    next: BTreeMap<(String, i32), usize>,
    /// The next number of each key.
    next_of_key: BTreeMap<(String, String), usize>,
    progress: Arc<Progress>,
}

impl Checker {
    pub fn new(address: &str, progress: Arc<Progress>) -> Self {
        let config = ConsumerConfig::builder(address)
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed");
        let mut consumer = Consumer::new(config).unwrap();
        let topics = PROTOCOLS
            .iter()
            .flat_map(|protocol| [topics::output(protocol), topics::by_key(protocol)]);
        let partitions =
            topics.flat_map(|topic| (0..PARTITIONS).map(move |number| TopicPartition::new(&*topic, number)));
        consumer.assign(partitions).unwrap();
        Self {
            consumer,
            next: BTreeMap::new(),
            next_of_key: BTreeMap::new(),
            progress,
        }
    }

    /// Reads until it has as many records as the input, once that number is known. Returns the count.
    pub async fn check(mut self, mut goal: watch::Receiver<Option<Vec<usize>>>) -> Result<usize, String> {
        let mut progress = Instant::now();
        loop {
            let records = self
                .consumer
                .poll(POLL)
                .await
                .map_err(|error| format!("the checker: {error}"))?;
            for record in &records {
                self.see(record)?;
            }
            let wanted = goal.borrow_and_update().clone();
            if !records.is_empty() || wanted.is_none() {
                progress = Instant::now();
            }
            let Some(counts) = wanted else { continue };
            let missing = self.missing(&counts);
            if missing == 0 {
                return Ok(self.next.values().sum());
            }
            if progress.elapsed() > TIMEOUT {
                return Err(format!(
                    "{missing} records have no effect, and nothing comes any more; the input has {counts:?}, and seen are {:?}",
                    self.next
                ));
            }
        }
    }

    fn see(&mut self, record: RecordRef<'_>) -> Result<(), String> {
        let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let number: usize = text(record.value()).parse().unwrap();
        let topic = record.topic().to_owned();
        let (next, step) = match record.key() {
            None => {
                let protocols = PROTOCOLS.iter().zip(&self.progress.copied);
                let copied = protocols.filter(|(protocol, _)| topics::output(protocol) == topic);
                for (_, count) in copied {
                    count.fetch_add(1, Relaxed);
                }
                (self.next.entry((topic, record.partition())).or_default(), 1)
            }
            Some(key) => {
                let first = number % KEYS;
                (self.next_of_key.entry((topic, text(Some(key)))).or_insert(first), KEYS)
            }
        };
        if number != *next {
            let wrong = if number < *next { "again" } else { "too early" };
            let (slot, offset) = (record.topic_partition(), record.offset());
            return Err(format!(
                "{slot} has {number} {wrong} at offset {offset}, in slot of {next}"
            ));
        }
        *next += step;
        Ok(())
    }

    fn missing(&self, counts: &[usize]) -> usize {
        let mut missing = 0;
        for protocol in PROTOCOLS {
            for (partition, count) in (0..).zip(counts) {
                let seen = self.next.get(&(topics::output(protocol), partition)).copied();
                missing += count.saturating_sub(seen.unwrap_or(0));
                for first in 0..KEYS.min(*count) {
                    let key = (topics::by_key(protocol), topics::key(partition, first));
                    let next = self.next_of_key.get(&key).copied().unwrap_or(first);
                    missing += count.saturating_sub(next).div_ceil(KEYS);
                }
            }
        }
        missing
    }
}

/// The contents of the outputs after the round, read with librdkafka.
#[derive(Debug, Default)]
pub struct Outputs {
    pub committed: usize,
    pub aborted: usize,
    pub markers: usize,
}

/// Reads everything again with librdkafka: outputs must equal the input, and so must the offsets of the groups.
pub async fn check_outputs(address: &str, counts: &[usize]) -> Result<Outputs, String> {
    let mut found = Outputs::default();
    for protocol in PROTOCOLS {
        check_offsets(address, &topics::group(protocol), counts).await?;
        let (output, by_key) = (topics::output(protocol), topics::by_key(protocol));
        let mut numbers_by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut expected_by_key: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (partition, count) in (0..).zip(counts) {
            let numbers = found
                .read(address, &output, partition)
                .into_iter()
                .map(|(_, number)| number);
            if !numbers.eq(0..*count) {
                return Err(format!(
                    "librdkafka does not see each of the {count} records of {output}-{partition} once"
                ));
            }
            for (key, number) in found.read(address, &by_key, partition) {
                numbers_by_key.entry(key).or_default().push(number);
            }
            for number in 0..*count {
                let key = topics::key(partition, number);
                expected_by_key.entry(key).or_default().push(number);
            }
        }
        if numbers_by_key != expected_by_key {
            return Err(format!("librdkafka does not see each record of {by_key} once"));
        }
    }
    Ok(found)
}

async fn check_offsets(address: &str, group: &str, counts: &[usize]) -> Result<(), String> {
    let admin = Admin::new(AdminConfig::builder(address)).unwrap();
    let offsets = admin.list_group_offsets([group]).await.remove(group).unwrap();
    let offsets = offsets.map_err(|error| format!("the offsets of {group}: {error}"))?;
    for (partition, count) in (0..).zip(counts) {
        let slot = TopicPartition::new(INPUT, partition);
        let committed = offsets.get(&slot).map(|offset| offset.offset);
        if committed != Some(i64::try_from(*count).unwrap()) {
            return Err(format!(
                "{group} has committed {committed:?} of the {count} records of {slot}"
            ));
        }
    }
    Ok(())
}

impl Outputs {
    /// The keys and numbers of committed records. Other records are only counted.
    fn read(&mut self, address: &str, topic: &str, partition: i32) -> Vec<(String, usize)> {
        let committed = read(address, topic, partition, "read_committed");
        let all = read(address, topic, partition, "read_uncommitted");
        self.committed += committed.len();
        self.aborted += all.len() - committed.len();
        self.markers += all.last().map_or(0, |(offset, ..)| offset + 1) - all.len();
        committed.into_iter().map(|(_, key, number)| (key, number)).collect()
    }
}

/// Offsets, keys and numbers.
fn read(address: &str, topic: &str, partition: i32, level: &str) -> Vec<(usize, String, usize)> {
    let line = |line: String| {
        let words: Vec<&str> = line.split(';').collect();
        (
            words[0].parse().unwrap(),
            words[1].to_owned(),
            words[2].parse().unwrap(),
        )
    };
    let partition = usize::try_from(partition).unwrap();
    let read = read_as(address, topic, partition, level, "%o;%k;%s\\n");
    read.into_iter().map(line).collect()
}
