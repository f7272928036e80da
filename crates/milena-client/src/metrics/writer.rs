//! From what was measured to metrics with names.

use super::{Metric, MetricKind, Metrics, stats::Sensor};

/// Collects metrics under the tags of the moment.
pub(super) struct Writer {
    metrics: Vec<Metric>,
    pub(super) now_ms: i64,
    pub(super) tags: Vec<(&'static str, String)>,
}

impl Writer {
    pub(super) fn new(now_ms: i64, client_id: &str) -> Self {
        Self {
            metrics: Vec::new(),
            now_ms,
            tags: vec![("client-id", client_id.to_owned())],
        }
    }

    pub(super) fn finish(self) -> Metrics {
        Metrics { metrics: self.metrics }
    }

    fn push(&mut self, group: &'static str, name: &'static str, kind: MetricKind, value: f64) {
        self.metrics.push(Metric {
            group,
            name,
            tags: self.tags.clone(),
            kind,
            value,
        });
    }

    pub(super) fn gauge(&mut self, group: &'static str, name: &'static str, value: f64) {
        self.push(group, name, MetricKind::Gauge, value);
    }

    pub(super) fn counter(&mut self, group: &'static str, name: &'static str, value: f64) {
        self.push(group, name, MetricKind::Counter, value);
    }

    pub(super) fn avg_max(&mut self, group: &'static str, avg: &'static str, max: &'static str, sensor: &Sensor) {
        self.gauge(group, avg, sensor.avg(self.now_ms));
        self.gauge(group, max, sensor.max(self.now_ms));
    }

    /// Of values that add up.
    pub(super) fn rate_total(&mut self, group: &'static str, rate: &'static str, total: &'static str, sensor: &Sensor) {
        self.gauge(group, rate, sensor.rate(self.now_ms));
        self.counter(group, total, sensor.total());
    }

    /// Of how often something happened.
    pub(super) fn frequency_count(
        &mut self,
        group: &'static str,
        rate: &'static str,
        count: &'static str,
        sensor: &Sensor,
    ) {
        self.gauge(group, rate, sensor.frequency(self.now_ms));
        self.counter(group, count, sensor.times());
    }
}
