//! Metrics of a consumer. They are recorded for each fetch, poll or call, never for each record.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::TopicPartition;

use super::{
    Metrics,
    network::{self, NetworkMetrics},
    stats::{Sensor, Window},
    writer::Writer,
};
use crate::net::{NodeNumbers, Numbers};

const FETCH: &str = "consumer-fetch-manager-metrics";
const COORDINATOR: &str = "consumer-coordinator-metrics";
const CONSUMER: &str = "consumer-metrics";
const NODE: &str = "consumer-node-metrics";

/// A request to the coordinator with metrics in Kafka.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupCall {
    Heartbeat,
    Join,
    Sync,
    Commit,
}

#[derive(Debug)]
pub(crate) struct ConsumerMetrics {
    window: Window,
    client_id: String,
    group_id: Option<String>,

    fetch_latency: Sensor,
    fetch_size: Sensor,
    records_per_request: Sensor,
    throttle: Sensor,
    consumed: Consumed,
    topics: BTreeMap<ByteString, Consumed>,
    partitions: BTreeMap<TopicPartition, PartitionLag>,
    lag: Sensor,
    lead: Sensor,

    calls: BTreeMap<GroupCall, Sensor>,
    last_heartbeat_ms: Option<i64>,
    rebalance_started_ms: Option<i64>,
    rebalance: Sensor,
    failed_rebalance: Sensor,
    last_rebalance_ms: Option<i64>,
    revoked: Sensor,
    assigned: Sensor,
    lost: Sensor,

    last_poll_ms: Option<i64>,
    between_polls: Sensor,
    idle_ratio: Sensor,
    polled_until_ms: Option<i64>,
    pub(crate) commit_sync_ns: u64,
    pub(crate) committed_ns: u64,
    commits_failed: u64,
    polls_expired: u64,

    network: NetworkMetrics,
}

/// Records and bytes that were polled.
#[derive(Debug)]
struct Consumed {
    records: Sensor,
    bytes: Sensor,
}

/// Lag and lead in a partition.
#[derive(Debug)]
struct PartitionLag {
    lag: Sensor,
    lead: Sensor,
}

/// The current state of a partition.
pub(crate) struct PartitionSnapshot {
    pub(crate) partition: TopicPartition,
    pub(crate) lag: Option<i64>,
    pub(crate) lead: Option<i64>,
    pub(crate) preferred_replica: Option<i32>,
}

impl ConsumerMetrics {
    pub(crate) fn new(window: Window, client_id: String, group_id: Option<String>) -> Self {
        let sensor = || Sensor::new(window);
        Self {
            window,
            client_id,
            group_id,
            fetch_latency: sensor(),
            fetch_size: sensor(),
            records_per_request: sensor(),
            throttle: sensor(),
            consumed: Consumed::new(window),
            topics: BTreeMap::new(),
            partitions: BTreeMap::new(),
            lag: sensor(),
            lead: sensor(),
            calls: BTreeMap::new(),
            last_heartbeat_ms: None,
            rebalance_started_ms: None,
            rebalance: sensor(),
            failed_rebalance: sensor(),
            last_rebalance_ms: None,
            revoked: sensor(),
            assigned: sensor(),
            lost: sensor(),
            last_poll_ms: None,
            between_polls: sensor(),
            idle_ratio: sensor(),
            polled_until_ms: None,
            commit_sync_ns: 0,
            committed_ns: 0,
            commits_failed: 0,
            polls_expired: 0,
            network: NetworkMetrics::new(window),
        }
    }

    /// Records a fetch response.
    pub(crate) fn record_fetch(&mut self, now_ms: i64, latency_us: u64, throttle_ms: i32) {
        self.fetch_latency.record(now_ms, latency_us as f64 / 1000.0);
        self.throttle.record(now_ms, f64::from(throttle_ms));
    }

    /// Records the sums of all partitions of a fetch response.
    pub(crate) fn record_fetched_records(&mut self, now_ms: i64, bytes: usize, records: usize) {
        self.fetch_size.record(now_ms, bytes as f64);
        self.records_per_request.record(now_ms, records as f64);
    }

    /// Records that records were polled.
    pub(crate) fn record_polled(&mut self, now_ms: i64, partition: &TopicPartition, records: usize, bytes: usize) {
        self.consumed.record(now_ms, records, bytes);
        if let Some(topic) = self.topics.get_mut(&partition.topic) {
            return topic.record(now_ms, records, bytes);
        }
        let mut topic = Consumed::new(self.window);
        topic.record(now_ms, records, bytes);
        self.topics.insert(partition.topic.clone(), topic);
    }

    /// Records the lag and lead in a partition.
    pub(crate) fn record_position(
        &mut self,
        now_ms: i64,
        partition: &TopicPartition,
        lag: Option<i64>,
        lead: Option<i64>,
    ) {
        if !self.partitions.contains_key(partition) {
            let distance = PartitionLag {
                lag: Sensor::new(self.window),
                lead: Sensor::new(self.window),
            };
            self.partitions.insert(partition.clone(), distance);
        }
        let Some(distance) = self.partitions.get_mut(partition) else {
            return;
        };
        if let Some(lag) = lag {
            self.lag.record(now_ms, lag as f64);
            distance.lag.record(now_ms, lag as f64);
        }
        if let Some(lead) = lead {
            self.lead.record(now_ms, lead as f64);
            distance.lead.record(now_ms, lead as f64);
        }
    }

    pub(crate) fn record_call(&mut self, now_ms: i64, call: GroupCall, latency_us: u64) {
        let window = self.window;
        let sensor = self.calls.entry(call).or_insert_with(|| Sensor::new(window));
        sensor.record(now_ms, latency_us as f64 / 1000.0);
        if call == GroupCall::Heartbeat {
            self.last_heartbeat_ms = Some(now_ms);
        }
    }

    pub(crate) fn record_rebalance_start(&mut self, now_ms: i64) {
        self.rebalance_started_ms.get_or_insert(now_ms);
    }

    pub(crate) fn record_rebalance_failure(&mut self, now_ms: i64) {
        self.failed_rebalance.record(now_ms, 1.0);
    }

    pub(crate) fn record_rebalance(&mut self, now_ms: i64) {
        let started_ms = self.rebalance_started_ms.take().unwrap_or(now_ms);
        self.rebalance.record(now_ms, (now_ms - started_ms) as f64);
        self.last_rebalance_ms = Some(now_ms);
    }

    /// Records the duration of a rebalance callback.
    pub(crate) fn record_callback(&mut self, now_ms: i64, event: RebalanceCallback, took_ms: i64) {
        let sensor = match event {
            RebalanceCallback::Revoked => &mut self.revoked,
            RebalanceCallback::Assigned => &mut self.assigned,
            RebalanceCallback::Lost => &mut self.lost,
        };
        sensor.record(now_ms, took_ms as f64);
    }

    pub(crate) fn record_poll_start(&mut self, now_ms: i64) {
        if let Some(last_ms) = self.last_poll_ms.replace(now_ms) {
            let between_ms = (now_ms - last_ms) as f64;
            self.between_polls.record(now_ms, between_ms);
            if let Some(until_ms) = self.polled_until_ms.filter(|_| between_ms > 0.0) {
                self.idle_ratio.record(now_ms, (until_ms - last_ms) as f64 / between_ms);
            }
        }
    }

    pub(crate) fn record_poll_end(&mut self, now_ms: i64) {
        self.polled_until_ms = Some(now_ms);
    }

    /// Records a failed commit: synchronous, asynchronous or automatic.
    pub(crate) fn record_commit_failure(&mut self) {
        self.commits_failed += 1;
    }

    /// Records that the member left its group after `max.poll.interval.ms`.
    pub(crate) fn record_poll_timeout(&mut self) {
        self.polls_expired += 1;
    }

    /// Adds the changes of the connections' counters since the last call.
    pub(crate) fn record_network(&mut self, now_ms: i64, numbers: Numbers) {
        self.network.record(now_ms, numbers);
    }

    pub(crate) fn snapshot(&self, now_ms: i64, partitions: &[PartitionSnapshot], nodes: &[NodeNumbers]) -> Metrics {
        // Kafka's metrics lack the group tag, but alerts need it.
        let mut out = Writer::new(now_ms, &self.client_id, self.group_id.as_deref());
        self.write_fetches(&mut out, partitions);
        self.write_group(&mut out, partitions.len());
        self.write_polls(&mut out);
        self.network.write(&mut out, CONSUMER);
        for node in nodes {
            network::write_node(&mut out, NODE, node);
        }
        out.finish()
    }

    fn write_fetches(&self, out: &mut Writer, partitions: &[PartitionSnapshot]) {
        out.avg_max(FETCH, "fetch-latency-avg", "fetch-latency-max", &self.fetch_latency);
        out.frequency_count(FETCH, "fetch-rate", "fetch-total", &self.fetch_latency);
        out.avg_max(FETCH, "fetch-size-avg", "fetch-size-max", &self.fetch_size);
        out.gauge(
            FETCH,
            "records-per-request-avg",
            self.records_per_request.avg(out.now_ms),
        );
        out.avg_max(
            FETCH,
            "fetch-throttle-time-avg",
            "fetch-throttle-time-max",
            &self.throttle,
        );
        out.gauge(FETCH, "records-lag-max", self.lag.max(out.now_ms));
        out.gauge(FETCH, "records-lead-min", self.lead.min(out.now_ms));
        self.consumed.write(out);
        for (topic, consumed) in &self.topics {
            out.tags.push(("topic", topic.to_string()));
            consumed.write(out);
            out.reset_tags();
        }
        for now in partitions {
            out.tags.push(("topic", now.partition.topic.to_string()));
            out.tags.push(("partition", now.partition.partition.to_string()));
            let gauge = |value: Option<i64>| value.map_or(f64::NAN, |value| value as f64);
            out.gauge(FETCH, "records-lag", gauge(now.lag));
            out.gauge(FETCH, "records-lead", gauge(now.lead));
            if let Some(distance) = self.partitions.get(&now.partition) {
                out.avg_max(FETCH, "records-lag-avg", "records-lag-max", &distance.lag);
                out.gauge(FETCH, "records-lead-avg", distance.lead.avg(out.now_ms));
                out.gauge(FETCH, "records-lead-min", distance.lead.min(out.now_ms));
            }
            let replica = now.preferred_replica.map_or(-1, i64::from);
            out.gauge(FETCH, "preferred-read-replica", replica as f64);
            out.reset_tags();
        }
    }

    fn write_group(&self, out: &mut Writer, partitions: usize) {
        if self.group_id.is_none() {
            return;
        }
        let none = Sensor::new(self.window);
        let call = |call: GroupCall| self.calls.get(&call).unwrap_or(&none);
        let ago = |at_ms: Option<i64>| at_ms.map_or(-1.0, |at_ms| ((out.now_ms - at_ms) / 1000) as f64);
        let (heartbeat_ago, rebalance_ago) = (ago(self.last_heartbeat_ms), ago(self.last_rebalance_ms));
        out.frequency_count(
            COORDINATOR,
            "heartbeat-rate",
            "heartbeat-total",
            call(GroupCall::Heartbeat),
        );
        out.gauge(
            COORDINATOR,
            "heartbeat-response-time-max",
            call(GroupCall::Heartbeat).max(out.now_ms),
        );
        out.gauge(COORDINATOR, "last-heartbeat-seconds-ago", heartbeat_ago);
        out.frequency_count(COORDINATOR, "join-rate", "join-total", call(GroupCall::Join));
        out.avg_max(COORDINATOR, "join-time-avg", "join-time-max", call(GroupCall::Join));
        out.frequency_count(COORDINATOR, "sync-rate", "sync-total", call(GroupCall::Sync));
        out.avg_max(COORDINATOR, "sync-time-avg", "sync-time-max", call(GroupCall::Sync));
        out.frequency_count(COORDINATOR, "commit-rate", "commit-total", call(GroupCall::Commit));
        out.avg_max(
            COORDINATOR,
            "commit-latency-avg",
            "commit-latency-max",
            call(GroupCall::Commit),
        );
        out.counter(COORDINATOR, "failed-commit-total", self.commits_failed as f64);
        out.counter(COORDINATOR, "poll-interval-exceeded-total", self.polls_expired as f64);
        out.gauge(COORDINATOR, "assigned-partitions", partitions as f64);
        out.avg_max(
            COORDINATOR,
            "rebalance-latency-avg",
            "rebalance-latency-max",
            &self.rebalance,
        );
        out.counter(COORDINATOR, "rebalance-latency-total", self.rebalance.total());
        out.counter(COORDINATOR, "rebalance-total", self.rebalance.times());
        out.gauge(
            COORDINATOR,
            "rebalance-rate-per-hour",
            3600.0 * self.rebalance.frequency(out.now_ms),
        );
        out.counter(COORDINATOR, "failed-rebalance-total", self.failed_rebalance.times());
        let failed_rate = 3600.0 * self.failed_rebalance.frequency(out.now_ms);
        out.gauge(COORDINATOR, "failed-rebalance-rate-per-hour", failed_rate);
        out.gauge(COORDINATOR, "last-rebalance-seconds-ago", rebalance_ago);
        out.avg_max(
            COORDINATOR,
            "partition-revoked-latency-avg",
            "partition-revoked-latency-max",
            &self.revoked,
        );
        out.avg_max(
            COORDINATOR,
            "partition-assigned-latency-avg",
            "partition-assigned-latency-max",
            &self.assigned,
        );
        out.avg_max(
            COORDINATOR,
            "partition-lost-latency-avg",
            "partition-lost-latency-max",
            &self.lost,
        );
    }

    fn write_polls(&self, out: &mut Writer) {
        let ago = self
            .last_poll_ms
            .map_or(-1.0, |at_ms| ((out.now_ms - at_ms) / 1000) as f64);
        out.gauge(CONSUMER, "last-poll-seconds-ago", ago);
        out.avg_max(
            CONSUMER,
            "time-between-poll-avg",
            "time-between-poll-max",
            &self.between_polls,
        );
        out.gauge(CONSUMER, "poll-idle-ratio-avg", self.idle_ratio.avg(out.now_ms));
        out.counter(CONSUMER, "commit-sync-time-ns-total", self.commit_sync_ns as f64);
        out.counter(CONSUMER, "committed-time-ns-total", self.committed_ns as f64);
    }
}

/// A rebalance callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RebalanceCallback {
    Revoked,
    Assigned,
    Lost,
}

impl Consumed {
    fn new(window: Window) -> Self {
        Self {
            records: Sensor::new(window),
            bytes: Sensor::new(window),
        }
    }

    fn record(&mut self, now_ms: i64, records: usize, bytes: usize) {
        self.records.record(now_ms, records as f64);
        self.bytes.record(now_ms, bytes as f64);
    }

    fn write(&self, out: &mut Writer) {
        out.rate_total(FETCH, "records-consumed-rate", "records-consumed-total", &self.records);
        out.rate_total(FETCH, "bytes-consumed-rate", "bytes-consumed-total", &self.bytes);
    }
}
