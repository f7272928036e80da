//! Metrics of a producer. They are recorded for each batch, request or call, never for each record.

use std::collections::BTreeMap;

use bytestring::ByteString;

use super::{
    Metrics,
    network::{self, NetworkMetrics},
    stats::{Sensor, Window},
    writer::Writer,
};
use crate::{
    net::{NodeNumbers, Numbers},
    producer::partition::PartitionerNumbers,
};

const PRODUCER: &str = "producer-metrics";
const TOPIC: &str = "producer-topic-metrics";
const NODE: &str = "producer-node-metrics";

#[derive(Debug)]
pub(crate) struct ProducerMetrics {
    window: Window,
    client_id: String,

    batch_size: Sensor,
    compression: Sensor,
    queue_time: Sensor,
    record_size: Sensor,
    records_per_request: Sensor,
    latency: Sensor,
    throttle: Sensor,
    retries: Sensor,
    errors: Sensor,
    splits: Sensor,
    buffer_waits_ns: Sensor,
    buffer_exhausted: Sensor,
    spent_ns: BTreeMap<ProducerCall, u64>,
    topics: BTreeMap<ByteString, TopicSent>,
    network: NetworkMetrics,
}

/// A call of the application with a time metric in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProducerCall {
    Flush,
    MetadataWait,
    TransactionInit,
    TransactionBegin,
    TransactionSendOffsets,
    TransactionCommit,
    TransactionAbort,
}

/// A batch in a produce request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentBatch<'a> {
    pub(crate) topic: &'a ByteString,
    pub(crate) records: usize,
    /// Compressed.
    pub(crate) bytes: usize,
    /// Uncompressed.
    pub(crate) uncompressed_bytes: usize,
    pub(crate) largest_record_bytes: usize,
    /// The time since its first record.
    pub(crate) queued_ms: i64,
}

/// The current state of the producer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProducerSnapshot {
    pub(crate) requests_in_flight: usize,
    /// `None` without metadata.
    pub(crate) metadata_age_ms: Option<i64>,
    /// Sends that wait for buffer memory.
    pub(crate) waiting_sends: usize,
    pub(crate) buffer_total_bytes: usize,
    pub(crate) buffer_available_bytes: usize,
    pub(crate) partitioner: PartitionerNumbers,
}

/// Metrics of a topic.
#[derive(Debug)]
struct TopicSent {
    records: Sensor,
    bytes: Sensor,
    compression: Sensor,
    retries: Sensor,
    errors: Sensor,
}

impl ProducerMetrics {
    pub(crate) fn new(window: Window, client_id: String) -> Self {
        let sensor = || Sensor::new(window);
        Self {
            window,
            client_id,
            batch_size: sensor(),
            compression: sensor(),
            queue_time: sensor(),
            record_size: sensor(),
            records_per_request: sensor(),
            latency: sensor(),
            throttle: sensor(),
            retries: sensor(),
            errors: sensor(),
            splits: sensor(),
            buffer_waits_ns: sensor(),
            buffer_exhausted: sensor(),
            spent_ns: BTreeMap::new(),
            topics: BTreeMap::new(),
            network: NetworkMetrics::new(window),
        }
    }

    /// Records a produce request with its batches. As in Kafka, a retried batch counts again.
    pub(crate) fn record_request<'a>(&mut self, now_ms: i64, batches: impl IntoIterator<Item = SentBatch<'a>>) {
        let mut records = 0;
        for batch in batches {
            let ratio = batch.bytes as f64 / batch.uncompressed_bytes.max(1) as f64;
            self.batch_size.record(now_ms, batch.bytes as f64);
            self.compression.record(now_ms, ratio);
            self.queue_time.record(now_ms, batch.queued_ms as f64);
            self.record_size.record(now_ms, batch.largest_record_bytes as f64);
            let topic = self.topic(batch.topic);
            topic.records.record(now_ms, batch.records as f64);
            topic.bytes.record(now_ms, batch.bytes as f64);
            topic.compression.record(now_ms, ratio);
            records += batch.records;
        }
        self.records_per_request.record(now_ms, records as f64);
    }

    /// Records a produce response.
    pub(crate) fn record_response(&mut self, now_ms: i64, latency_us: u64, throttle_ms: i32) {
        self.latency.record(now_ms, latency_us as f64 / 1000.0);
        self.throttle.record(now_ms, f64::from(throttle_ms));
    }

    /// Records the retry of a batch.
    pub(crate) fn record_retry(&mut self, now_ms: i64, topic: &ByteString, records: usize) {
        self.retries.record(now_ms, records as f64);
        self.topic(topic).retries.record(now_ms, records as f64);
    }

    /// Records that records failed.
    pub(crate) fn record_failure(&mut self, now_ms: i64, topic: &ByteString, records: usize) {
        self.errors.record(now_ms, records as f64);
        self.topic(topic).errors.record(now_ms, records as f64);
    }

    /// Records the split of a batch that was too large.
    pub(crate) fn record_split(&mut self, now_ms: i64) {
        self.splits.record(now_ms, 1.0);
    }

    /// Records a wait for buffer memory.
    pub(crate) fn record_buffer_wait(&mut self, now_ms: i64, waited_ns: u64) {
        self.buffer_waits_ns.record(now_ms, waited_ns as f64);
    }

    /// Records a send that timed out on buffer memory.
    pub(crate) fn record_buffer_exhausted(&mut self, now_ms: i64) {
        self.buffer_exhausted.record(now_ms, 1.0);
    }

    /// Records the duration of a call.
    pub(crate) fn record_call_time(&mut self, call: ProducerCall, ns: u64) {
        *self.spent_ns.entry(call).or_default() += ns;
    }

    /// Adds the changes of the connections' counters since the last call.
    pub(crate) fn record_network(&mut self, now_ms: i64, numbers: Numbers) {
        self.network.record(now_ms, numbers);
    }

    pub(crate) fn snapshot(&self, now_ms: i64, now: &ProducerSnapshot, nodes: &[NodeNumbers]) -> Metrics {
        let mut out = Writer::new(now_ms, &self.client_id, None);
        self.write_batches(&mut out);
        self.write_buffer(&mut out, now);
        self.write_calls(&mut out);
        self.network.write(&mut out, PRODUCER);
        for (topic, sent) in &self.topics {
            out.tags.push(("topic", topic.to_string()));
            sent.write(&mut out);
            out.reset_tags();
        }
        for node in nodes {
            network::write_node(&mut out, NODE, node);
        }
        out.finish()
    }

    fn topic(&mut self, topic: &ByteString) -> &mut TopicSent {
        let window = self.window;
        self.topics
            .entry(topic.clone())
            .or_insert_with(|| TopicSent::new(window))
    }

    fn write_batches(&self, out: &mut Writer) {
        let now_ms = out.now_ms;
        out.avg_max(PRODUCER, "batch-size-avg", "batch-size-max", &self.batch_size);
        out.gauge(PRODUCER, "compression-rate-avg", self.compression.avg(now_ms));
        out.avg_max(
            PRODUCER,
            "record-queue-time-avg",
            "record-queue-time-max",
            &self.queue_time,
        );
        out.avg_max(PRODUCER, "record-size-avg", "record-size-max", &self.record_size);
        out.avg_max(PRODUCER, "request-latency-avg", "request-latency-max", &self.latency);
        out.avg_max(
            PRODUCER,
            "produce-throttle-time-avg",
            "produce-throttle-time-max",
            &self.throttle,
        );
        out.rate_total(
            PRODUCER,
            "record-send-rate",
            "record-send-total",
            &self.records_per_request,
        );
        out.gauge(
            PRODUCER,
            "records-per-request-avg",
            self.records_per_request.avg(now_ms),
        );
        out.rate_total(PRODUCER, "record-retry-rate", "record-retry-total", &self.retries);
        out.rate_total(PRODUCER, "record-error-rate", "record-error-total", &self.errors);
        out.rate_total(PRODUCER, "batch-split-rate", "batch-split-total", &self.splits);
    }

    fn write_buffer(&self, out: &mut Writer, now: &ProducerSnapshot) {
        out.gauge(PRODUCER, "requests-in-flight", now.requests_in_flight as f64);
        let age = now.metadata_age_ms.map_or(f64::NAN, |age_ms| age_ms as f64 / 1000.0);
        out.gauge(PRODUCER, "metadata-age", age);
        out.gauge(PRODUCER, "waiting-threads", now.waiting_sends as f64);
        out.gauge(PRODUCER, "buffer-total-bytes", now.buffer_total_bytes as f64);
        out.gauge(PRODUCER, "buffer-available-bytes", now.buffer_available_bytes as f64);
        // Nanoseconds per second.
        let ratio = self.buffer_waits_ns.rate(out.now_ms) / 1e9;
        out.gauge(PRODUCER, "bufferpool-wait-ratio", ratio);
        out.counter(PRODUCER, "bufferpool-wait-time-ns-total", self.buffer_waits_ns.total());
        out.rate_total(
            PRODUCER,
            "buffer-exhausted-rate",
            "buffer-exhausted-total",
            &self.buffer_exhausted,
        );
        // Kafka has no such partitioner and no such metrics.
        let PartitionerNumbers {
            hot_keys,
            hot_keys_total,
            records_spread_total,
        } = now.partitioner;
        out.gauge(PRODUCER, "hot-key-count", hot_keys as f64);
        out.counter(PRODUCER, "hot-key-total", hot_keys_total as f64);
        out.counter(PRODUCER, "hot-key-record-spread-total", records_spread_total as f64);
    }

    fn write_calls(&self, out: &mut Writer) {
        for (call, name) in [
            (ProducerCall::Flush, "flush-time-ns-total"),
            (ProducerCall::MetadataWait, "metadata-wait-time-ns-total"),
            (ProducerCall::TransactionInit, "txn-init-time-ns-total"),
            (ProducerCall::TransactionBegin, "txn-begin-time-ns-total"),
            (ProducerCall::TransactionSendOffsets, "txn-send-offsets-time-ns-total"),
            (ProducerCall::TransactionCommit, "txn-commit-time-ns-total"),
            (ProducerCall::TransactionAbort, "txn-abort-time-ns-total"),
        ] {
            let spent_ns = self.spent_ns.get(&call).copied().unwrap_or_default();
            out.counter(PRODUCER, name, spent_ns as f64);
        }
    }
}

impl TopicSent {
    fn new(window: Window) -> Self {
        let sensor = || Sensor::new(window);
        Self {
            records: sensor(),
            bytes: sensor(),
            compression: sensor(),
            retries: sensor(),
            errors: sensor(),
        }
    }

    fn write(&self, out: &mut Writer) {
        out.rate_total(TOPIC, "record-send-rate", "record-send-total", &self.records);
        out.rate_total(TOPIC, "byte-rate", "byte-total", &self.bytes);
        out.gauge(TOPIC, "compression-rate", self.compression.avg(out.now_ms));
        out.rate_total(TOPIC, "record-retry-rate", "record-retry-total", &self.retries);
        out.rate_total(TOPIC, "record-error-rate", "record-error-total", &self.errors);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::net::Role;

    const WINDOW: Window = Window {
        samples: 2,
        length_ms: 30_000,
    };

    /// Metrics of Kafka without an equivalent: a client on tokio has no selector, no count of brokers too old to renew a
    /// log-in, and no two-phase commit.
    const LEFT_OUT: &[&str] = &[
        "successful-authentication-no-reauth-",
        "io-ratio",
        "io-time-",
        "io-wait-",
        "select-",
        "request-size-",
        "txn-prepare-time-ns-total",
    ];

    fn metrics() -> ProducerMetrics {
        ProducerMetrics::new(WINDOW, "p".to_owned())
    }

    fn node() -> NodeNumbers {
        NodeNumbers {
            node_id: 1,
            role: Role::Data,
            numbers: Numbers::default(),
        }
    }

    fn batch(topic: &ByteString) -> SentBatch<'_> {
        SentBatch {
            topic,
            records: 10,
            bytes: 500,
            uncompressed_bytes: 1000,
            largest_record_bytes: 120,
            queued_ms: 5,
        }
    }

    #[test]
    fn every_metric_of_a_java_producer_is_there_under_its_name() {
        let mut producer = metrics();
        producer.record_request(0, [batch(&"t".into())]);
        let snapshot = producer.snapshot(0, &ProducerSnapshot::default(), &[node()]);
        let ours: BTreeSet<String> = snapshot
            .iter()
            .map(|metric| {
                let tags: Vec<&str> = metric.tags.iter().map(|(tag, _)| *tag).collect();
                format!("{}\t{}\t{}", metric.group, metric.name, tags.join(" "))
            })
            .collect();
        let golden: BTreeSet<&str> = include_str!("../../tests/golden/producer_metrics.txt")
            .lines()
            .collect();
        assert!(golden.len() > 60);
        for line in &golden {
            let name = line.split('\t').nth(1).unwrap();
            let is_left_out = LEFT_OUT.iter().any(|beginning| name.starts_with(beginning));
            assert_ne!(ours.contains(*line), is_left_out, "{line}");
        }
        let own: Vec<_> = ours
            .iter()
            .filter(|line| !golden.contains(line.as_str()) && !line.starts_with(NODE))
            .collect();
        assert_eq!(
            own,
            [
                "producer-metrics\thot-key-count\tclient-id",
                "producer-metrics\thot-key-record-spread-total\tclient-id",
                "producer-metrics\thot-key-total\tclient-id",
            ]
        );
    }

    #[test]
    fn what_is_sent_counts_for_the_client_and_for_its_topic() {
        let (one, other) = ("one".into(), "other".into());
        let mut producer = metrics();
        producer.record_request(0, [batch(&one), batch(&other)]);
        producer.record_request(1000, [batch(&one)]);
        producer.record_response(1000, 2500, 7);
        producer.record_retry(1000, &one, 10);
        producer.record_failure(1000, &other, 3);
        producer.record_split(1000);
        producer.record_call_time(ProducerCall::Flush, 40);
        producer.record_call_time(ProducerCall::Flush, 2);
        producer.record_buffer_wait(1000, 3_000_000_000);
        producer.record_buffer_exhausted(1000);
        let now = ProducerSnapshot {
            requests_in_flight: 2,
            metadata_age_ms: Some(1500),
            buffer_total_bytes: 1000,
            buffer_available_bytes: 400,
            ..ProducerSnapshot::default()
        };
        let snapshot = producer.snapshot(1000, &now, &[]);
        for (name, value) in [
            ("record-send-total", 30.0),
            ("records-per-request-avg", 15.0),
            ("batch-size-avg", 500.0),
            ("compression-rate-avg", 0.5),
            ("record-size-max", 120.0),
            ("record-queue-time-max", 5.0),
            ("request-latency-avg", 2.5),
            ("produce-throttle-time-max", 7.0),
            ("record-retry-total", 10.0),
            ("record-error-total", 3.0),
            ("batch-split-total", 1.0),
            ("requests-in-flight", 2.0),
            ("metadata-age", 1.5),
            ("buffer-total-bytes", 1000.0),
            ("buffer-available-bytes", 400.0),
            ("bufferpool-wait-time-ns-total", 3e9),
            // Three seconds in the current window and the previous one, which counts as complete.
            ("bufferpool-wait-ratio", 0.1),
            ("buffer-exhausted-total", 1.0),
            ("flush-time-ns-total", 42.0),
            ("txn-commit-time-ns-total", 0.0),
        ] {
            assert_eq!(snapshot.get(name), Some(value), "{name}");
        }
        assert_eq!(snapshot.get_of_topic("record-send-total", "one"), Some(20.0));
        assert_eq!(snapshot.get_of_topic("byte-total", "one"), Some(1000.0));
        assert_eq!(snapshot.get_of_topic("record-error-total", "other"), Some(3.0));
        assert_eq!(snapshot.get_of_topic("compression-rate", "other"), Some(0.5));
        let text = snapshot.to_prometheus();
        assert!(
            text.contains("kafka_producer_record_send_total{client_id=\"p\",topic=\"one\"} 20\n"),
            "{text}"
        );
        assert!(text.contains("# TYPE kafka_producer_batch_size_avg gauge\n"), "{text}");
    }
}
