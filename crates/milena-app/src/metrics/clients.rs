//! The metrics of an application's clients, under Kafka's names.

use std::{collections::BTreeMap, fmt::Write};

use milena_client::metrics::{Metric, MetricKind, Metrics};

use super::label;

/// All metrics of one name, each with the group of its client.
type MetricFamily<'a> = (MetricKind, Vec<(&'a str, &'a Metric)>);

/// Writes the metrics of several clients, each with the group that it works for: `kafka_consumer_records_lag` and so on. All
/// that has one name stands together, as the format wants it.
pub(crate) fn write_clients(text: &mut String, clients: &[(String, Metrics)]) {
    let mut names: BTreeMap<String, MetricFamily<'_>> = BTreeMap::new();
    for (group, metrics) in clients {
        for metric in metrics.iter().filter(|metric| !metric.value.is_nan()) {
            // Groups of metrics begin with whose they are.
            let client = metric.group.split('-').next().unwrap_or_default();
            let name = format!("kafka_{client}_{}", metric.name.replace('-', "_"));
            let found = names.entry(name).or_insert((metric.kind, vec![]));
            found.1.push((group, metric));
        }
    }
    for (name, (kind, metrics)) in names {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}");
        for (group, metric) in metrics {
            let own = metric.tags.iter().filter(|(tag, _)| *tag != "group");
            let mut labels = format!("group=\"{}\"", label(group));
            for (tag, value) in own {
                let _ = write!(labels, ",{}=\"{}\"", tag.replace('-', "_"), label(value));
            }
            let _ = writeln!(text, "{name}{{{labels}}} {}", metric.value);
        }
    }
}
