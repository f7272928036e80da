//! An application under test, with its own broker and clock.

use std::{fmt, time::Duration};

use milena_app::{App, Clock, Running, status::Status};
use milena_client::{
    config::{ConsumerConfig, ProducerConfig},
    consumer::{Consumer, ConsumerRecord, TopicPartition},
    producer::{Header, Producer, ProducerRecord},
};

use tokio::sync::Mutex;

use crate::{TestBroker, TestRecord};

/// Longer than any operation takes; limits a test that hangs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(1);

/// Runs an application, the same that runs in production, on a broker in the test. Its clock stands still until
/// [`advance`](Self::advance) moves it: five minutes of waiting for a retry topic take no time.
///
/// ```
/// use std::time::Duration;
///
/// use milena_app::prelude::*;
/// use milena_test::TestKit;
///
/// # #[tokio::main]
/// # async fn main() {
/// async fn charge(Value(order): Value<String>) -> Result<(), Fault> {
///     if order == "unpaid" { Err(Fault::retry("no money")) } else { Ok(()) }
/// }
///
/// let app = App::new("").group("billing").on("orders", charge, |policy| {
///     policy.retry(Retry::none()).then_topics([Duration::from_secs(60)])
/// });
/// let mut kit = TestKit::start(app).await;
/// kit.publish("orders", ("anna", "unpaid")).await;
/// kit.settled().await;
/// kit.assert_dlq("orders", 0).await;
/// kit.advance(Duration::from_secs(60)).await;
/// let dead = kit.assert_dlq("orders", 1).await;
/// assert_eq!(dead[0].value(), Some(&b"unpaid"[..]));
/// kit.stop().await;
/// # }
/// ```
pub struct TestKit {
    broker: TestBroker,
    clock: Clock,
    app: App,
    producer: Producer,
    /// For queries to the broker.
    reader: Mutex<Consumer>,
    instances: Vec<Running>,
}

impl TestKit {
    /// Starts a broker with a topic of one partition for each that the application names, and the application.
    pub async fn start(app: App) -> Self {
        Self::start_on(TestBroker::start(), app).await
    }

    /// The same on a broker that has some topics already.
    pub async fn start_on(broker: TestBroker, app: App) -> Self {
        let mut reader = reader(&broker);
        let listed = topics(&mut reader).await;
        for topic in app.topics().filter(|topic| !topic.contains('{')) {
            if !listed.iter().any(|(name, _)| name == topic) {
                broker.create_topic(topic, 1);
            }
        }
        let clock = Clock::manual();
        let app = app
            .bootstrap_servers(broker.bootstrap_servers())
            .clock(clock.clone())
            .consumer("heartbeat.interval.ms", 50)
            .consumer("session.timeout.ms", 6000)
            .consumer("metadata.max.age.ms", 200);
        let producer = Producer::new(ProducerConfig::builder(broker.bootstrap_servers()).linger_ms(0));
        let mut kit = Self {
            broker,
            clock,
            app,
            producer: producer.unwrap_or_else(|error| panic!("there is no producer: {error}")),
            reader: Mutex::new(reader),
            instances: vec![],
        };
        kit.add_instance().await;
        kit
    }

    pub fn broker(&self) -> &TestBroker {
        &self.broker
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The first instance of the application.
    pub fn running(&self) -> &Running {
        self.instances
            .first()
            .expect("the application was stopped: start it again")
    }

    /// Sends a record, to the partition of its key, and waits until it is written.
    pub async fn publish(&self, topic: &str, record: impl Into<TestRecord>) {
        let record = record.into();
        let headers = record.headers.iter().map(|(name, value)| Header {
            key: name.as_bytes(),
            value: value.as_deref(),
        });
        let headers: Vec<Header<'_>> = headers.collect();
        let record = ProducerRecord {
            topic,
            partition: None,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
            timestamp: Some(record.timestamp.unwrap_or_else(|| self.clock.now_ms())),
        };
        let sent = self.producer.send(record).await;
        sent.unwrap_or_else(|error| panic!("nothing was published to {topic}: {error}"));
    }

    /// Waits until all that was published is handled, or waits for time to pass: nothing more happens unless something is
    /// published or time moves.
    pub async fn settled(&self) {
        let settling = async {
            // Seen once, it may be between two steps; seen twice, it is stable.
            let mut before = None;
            loop {
                let now = self.settled_now().await;
                if now.is_some() && now == before {
                    return;
                }
                before = now;
                tokio::time::sleep(PAUSE).await;
            }
        };
        if tokio::time::timeout(TIMEOUT, settling).await.is_err() {
            let lines: Vec<String> = self.status().partitions.iter().map(ToString::to_string).collect();
            panic!(
                "the application is not settled after {TIMEOUT:?}:\n{}",
                lines.join("\n")
            );
        }
    }

    /// All positions, if nothing is in progress.
    async fn settled_now(&self) -> Option<Vec<(TopicPartition, i64, i64)>> {
        let status = self.status();
        if !status.is_idle() || !self.clock.is_quiet() {
            return None;
        }
        let owned = &status.partitions;
        let mut ends = vec![];
        for (topic, partitions) in topics(&mut *self.reader.lock().await).await {
            let is_read = owned.iter().any(|partition| *partition.partition.topic == *topic);
            let is_named = self.app.topics().any(|name| name == topic);
            if is_read || is_named {
                ends.extend((0..partitions).map(|partition| TopicPartition::new(topic.as_str(), partition)));
            }
        }
        let mut places = vec![];
        for (partition, end) in self.end_offsets(ends).await {
            let found = owned.iter().find(|owned| owned.partition == partition)?;
            if found.end < end && found.paused.is_empty() {
                return None;
            }
            places.push((partition, found.frontier, found.end));
        }
        Some(places)
    }

    /// All instances together.
    fn status(&self) -> Status {
        let mut all = Status::default();
        for running in &self.instances {
            all += running.status();
        }
        all
    }

    async fn end_offsets(&self, partitions: Vec<TopicPartition>) -> Vec<(TopicPartition, i64)> {
        let ends = self.reader.lock().await.end_offsets(&partitions).await;
        let ends = ends.unwrap_or_else(|error| panic!("the broker does not tell its offsets: {error}"));
        ends.into_iter().collect()
    }

    /// Advances the clock. Timers that are due meanwhile fire in order, and the application settles after each.
    pub async fn advance(&self, time: Duration) {
        let time_ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let until_ms = self.clock.now_ms().saturating_add(time_ms);
        self.settled().await;
        loop {
            let now_ms = self.clock.now_ms();
            if now_ms >= until_ms {
                return;
            }
            let next_ms = self.clock.next_ms().unwrap_or(until_ms).clamp(now_ms + 1, until_ms);
            self.clock
                .advance(Duration::from_millis(u64::try_from(next_ms - now_ms).unwrap_or(1)));
            self.settled().await;
        }
    }

    /// The records of a topic that count: those of transactions when they are committed.
    pub async fn records(&self, topic: &str) -> Vec<ConsumerRecord> {
        let found = topics(&mut *self.reader.lock().await)
            .await
            .into_iter()
            .find(|(name, _)| name == topic);
        let Some((_, partitions)) = found else {
            return vec![];
        };
        let partitions: Vec<_> = (0..partitions)
            .map(|partition| TopicPartition::new(topic, partition))
            .collect();
        let mut consumer = reader(&self.broker);
        consumer.assign(partitions.clone()).expect("partitions to assign");
        consumer.seek_to_beginning(&partitions).expect("partitions to seek");
        let mut records: Vec<ConsumerRecord> = vec![];
        for (partition, end) in self.end_offsets(partitions).await {
            while consumer.position(&partition).await.expect("a position").offset < end {
                let polled = consumer.poll(TIMEOUT).await.expect("records");
                records.extend(polled.iter().map(|record| record.to_owned()));
            }
        }
        records.sort_by_key(|record| (record.partition(), record.offset()));
        records
    }

    /// Asserts the number of dead letters of a topic; returns them.
    pub async fn assert_dlq(&self, topic: &str, count: usize) -> Vec<ConsumerRecord> {
        let dead = self.records(&format!("{topic}.dlq")).await;
        assert_eq!(dead.len(), count, "dead letters of {topic}: {dead:?}");
        dead
    }

    /// Ends all instances as in a crash, without further commits, and starts one again.
    pub async fn crash(&mut self) {
        self.instances.drain(..).for_each(Running::kill);
        self.add_instance().await;
    }

    /// One more instance of the application. It takes its share of the partitions.
    pub async fn add_instance(&mut self) {
        let running = self.app.clone().start().await;
        let running = running.unwrap_or_else(|error| panic!("the application does not start: {error}"));
        self.instances.push(running);
    }

    /// A second instance joins, takes its share of the partitions, and leaves again.
    pub async fn rebalance(&mut self) {
        self.settled().await;
        self.add_instance().await;
        // With fewer partitions than instances, one has none.
        if self.status().partitions.len() > 1 {
            self.wait_for_shares().await;
        }
        if let Some(second) = self.instances.pop() {
            let stopped = second.stop().await;
            stopped.unwrap_or_else(|error| panic!("the second instance did not end in peace: {error}"));
        }
        self.settled().await;
    }

    async fn wait_for_shares(&self) {
        let has_none = |running: &Running| running.status().partitions.is_empty();
        let shared = async {
            while self.instances.iter().any(has_none) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        let shared = tokio::time::timeout(TIMEOUT, shared).await;
        shared.unwrap_or_else(|_| panic!("an instance got no partition within {TIMEOUT:?}"));
    }

    /// Stops all instances gracefully, and returns the broker.
    pub async fn stop(mut self) -> TestBroker {
        for running in self.instances.drain(..) {
            let stopped = running.stop().await;
            stopped.unwrap_or_else(|error| panic!("the application did not end in peace: {error}"));
        }
        self.broker
    }
}

fn reader(broker: &TestBroker) -> Consumer {
    let config = ConsumerConfig::builder(broker.bootstrap_servers())
        .set("auto.offset.reset", "earliest")
        .set("isolation.level", "read_committed");
    Consumer::new(config).unwrap_or_else(|error| panic!("there is no consumer: {error}"))
}

/// The topics of the broker, with how many partitions each has.
async fn topics(reader: &mut Consumer) -> Vec<(String, i32)> {
    let listed = reader.list_topics().await;
    let listed = listed.unwrap_or_else(|error| panic!("the broker does not tell its topics: {error}"));
    let counted = listed.into_iter().map(|(name, partitions)| {
        let count = i32::try_from(partitions.len()).unwrap_or(i32::MAX);
        (name.to_string(), count)
    });
    counted.collect()
}

impl fmt::Debug for TestKit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestKit")
            .field("app", &self.app)
            .field("instances", &self.instances.len())
            .finish_non_exhaustive()
    }
}
