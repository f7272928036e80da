//! Metrics under Kafka's names.

mod consumer;
mod network;
mod producer;
mod stats;
mod writer;

use std::fmt::Write;

pub(crate) use consumer::{ConsumerMetrics, GroupCall, PartitionSnapshot, RebalanceCallback};
pub(crate) use producer::{ProducerCall, ProducerMetrics, ProducerSnapshot, SentBatch};
pub(crate) use stats::Window;

/// A metric, with the name and group of Kafka's Java client.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Such as `consumer-fetch-manager-metrics`.
    pub group: &'static str,
    /// Such as `records-lag-max`.
    pub name: &'static str,
    /// Such as `client-id`, `group`, `topic`, `partition`. All metrics of a consumer in a group have its `group`.
    pub tags: Vec<(&'static str, String)>,
    pub kind: MetricKind,
    /// NaN if there is no data, as in Kafka.
    pub value: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    Gauge,
}

impl Metric {
    /// The kind of client, `consumer` or `producer`: the beginning of the group.
    fn client(&self) -> &'static str {
        self.group.split('-').next().unwrap_or_default()
    }

    pub fn tag(&self, name: &str) -> Option<&str> {
        self.tags
            .iter()
            .find(|(tag, _)| *tag == name)
            .map(|(_, value)| value.as_str())
    }
}

/// All metrics of a client at one moment.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    metrics: Vec<Metric>,
}

impl Metrics {
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Metric> {
        self.metrics.iter()
    }

    /// The metric of this name for the whole client or its group, without the tags of a topic, a partition or a broker.
    pub fn get(&self, name: &str) -> Option<f64> {
        let is_common = |(tag, _): &(&str, String)| matches!(*tag, "client-id" | "group");
        let of_client = |metric: &&Metric| metric.name == name && metric.tags.iter().all(is_common);
        self.metrics.iter().find(of_client).map(|metric| metric.value)
    }

    /// The metric of this name for one partition.
    pub fn get_of(&self, name: &str, topic: &str, partition: i32) -> Option<f64> {
        let partition = partition.to_string();
        let is_it = |metric: &&Metric| {
            metric.name == name && metric.tag("topic") == Some(topic) && metric.tag("partition") == Some(&partition)
        };
        self.metrics.iter().find(is_it).map(|metric| metric.value)
    }

    /// The metric of this name for one topic.
    pub fn get_of_topic(&self, name: &str, topic: &str) -> Option<f64> {
        let is_it = |metric: &&Metric| {
            metric.name == name && metric.tag("topic") == Some(topic) && metric.tag("partition").is_none()
        };
        self.metrics.iter().find(is_it).map(|metric| metric.value)
    }

    /// Adds the metrics of another client.
    pub fn extend(&mut self, other: Self) {
        self.metrics.extend(other.metrics);
    }

    /// Adds a tag to every metric that does not have it yet.
    pub fn add_tag(&mut self, name: &'static str, value: &str) {
        for metric in self.metrics.iter_mut().filter(|metric| metric.tag(name).is_none()) {
            metric.tags.push((name, value.to_owned()));
        }
    }

    /// Renders the metrics in Prometheus' text format: `records-lag` is `kafka_consumer_records_lag`. Metrics without a
    /// value are left out.
    pub fn to_prometheus(&self) -> String {
        let mut metrics: Vec<&Metric> = self.metrics.iter().filter(|metric| !metric.value.is_nan()).collect();
        metrics.sort_by_key(|metric| (metric.client(), metric.name));
        let mut text = String::new();
        let mut last = ("", "");
        for metric in metrics {
            let client = metric.client();
            let name = format!("kafka_{client}_{}", metric.name.replace('-', "_"));
            if (client, metric.name) != last {
                last = (client, metric.name);
                let kind = match metric.kind {
                    MetricKind::Counter => "counter",
                    MetricKind::Gauge => "gauge",
                };
                // Writing to a string cannot fail.
                let _ = writeln!(
                    text,
                    "# HELP {name} Kafka client metric {}:{}.",
                    metric.group, metric.name
                );
                let _ = writeln!(text, "# TYPE {name} {kind}");
            }
            let tags = metric.tags.iter();
            let tags: Vec<String> = tags
                .map(|(tag, value)| format!("{}=\"{}\"", tag.replace('-', "_"), escaped(value)))
                .collect();
            let _ = writeln!(text, "{name}{{{}}} {}", tags.join(","), metric.value);
        }
        text
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prometheus_reads_names_labels_and_kinds() {
        let metric = |name, tags: &[(&'static str, &str)], kind, value| Metric {
            group: "consumer-fetch-manager-metrics",
            name,
            tags: tags.iter().map(|(tag, value)| (*tag, (*value).to_owned())).collect(),
            kind,
            value,
        };
        let lag = |partition, value| {
            let tags = [("client-id", "a\"b"), ("topic", "t"), ("partition", partition)];
            metric("records-lag", &tags, MetricKind::Gauge, value)
        };
        let metrics = vec![
            lag("0", 3.0),
            metric("fetch-total", &[("client-id", "c")], MetricKind::Counter, 7.0),
            metric("fetch-latency-avg", &[("client-id", "c")], MetricKind::Gauge, f64::NAN),
            lag("1", 0.5),
        ];
        let metrics = Metrics { metrics };
        let expected = r#"# HELP kafka_consumer_fetch_total Kafka client metric consumer-fetch-manager-metrics:fetch-total.
# TYPE kafka_consumer_fetch_total counter
kafka_consumer_fetch_total{client_id="c"} 7
# HELP kafka_consumer_records_lag Kafka client metric consumer-fetch-manager-metrics:records-lag.
# TYPE kafka_consumer_records_lag gauge
kafka_consumer_records_lag{client_id="a\"b",topic="t",partition="0"} 3
kafka_consumer_records_lag{client_id="a\"b",topic="t",partition="1"} 0.5
"#;
        assert_eq!(metrics.to_prometheus(), expected);
        assert_eq!(metrics.get("fetch-total"), Some(7.0));
        assert_eq!(
            metrics.get("records-lag"),
            None,
            "the metric of a partition is not that of the client"
        );
        assert_eq!(metrics.get_of("records-lag", "t", 1), Some(0.5));
    }

    #[test]
    fn metrics_of_a_group_are_found_and_those_of_clients_join() {
        let metric = |group, client: &str, value| Metric {
            group,
            name: "commit-total",
            tags: vec![("client-id", client.to_owned()), ("group", "g".to_owned())],
            kind: MetricKind::Counter,
            value,
        };
        let of = |group, client, value| Metrics {
            metrics: vec![metric(group, client, value)],
        };
        let mut metrics = of("consumer-coordinator-metrics", "a", 2.0);
        assert_eq!(metrics.get("commit-total"), Some(2.0));
        metrics.extend(of("producer-metrics", "p", 1.0));
        metrics.extend(of("consumer-coordinator-metrics", "b", 3.0));
        let expected = r#"# HELP kafka_consumer_commit_total Kafka client metric consumer-coordinator-metrics:commit-total.
# TYPE kafka_consumer_commit_total counter
kafka_consumer_commit_total{client_id="a",group="g"} 2
kafka_consumer_commit_total{client_id="b",group="g"} 3
# HELP kafka_producer_commit_total Kafka client metric producer-metrics:commit-total.
# TYPE kafka_producer_commit_total counter
kafka_producer_commit_total{client_id="p",group="g"} 1
"#;
        assert_eq!(metrics.to_prometheus(), expected);
        metrics.add_tag("group", "other");
        metrics.add_tag("host", "h");
        assert!(
            metrics.iter().all(|metric| metric.tag("group") == Some("g")),
            "an existing tag stays"
        );
        assert!(metrics.iter().all(|metric| metric.tag("host") == Some("h")));
    }
}
