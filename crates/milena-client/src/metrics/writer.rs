//! Writer of metrics with names and tags.

use super::{Metric, MetricKind, Metrics, stats::Sensor};

/// Collects metrics under the current tags.
pub(super) struct Writer {
    metrics: Vec<Metric>,
    pub(super) now_ms: i64,
    pub(super) tags: Vec<(&'static str, String)>,
    /// The number of tags that all metrics have.
    common_tags: usize,
}

impl Writer {
    pub(super) fn new(now_ms: i64, client_id: &str, group_id: Option<&str>) -> Self {
        let mut tags = vec![("client-id", client_id.to_owned())];
        tags.extend(group_id.map(|group_id| ("group", group_id.to_owned())));
        Self {
            metrics: Vec::new(),
            now_ms,
            common_tags: tags.len(),
            tags,
        }
    }

    /// Removes all tags but those of the client and its group.
    pub(super) fn reset_tags(&mut self) {
        self.tags.truncate(self.common_tags);
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

    /// Writes a rate and a total of summed values.
    pub(super) fn rate_total(&mut self, group: &'static str, rate: &'static str, total: &'static str, sensor: &Sensor) {
        self.gauge(group, rate, sensor.rate(self.now_ms));
        self.counter(group, total, sensor.total());
    }

    /// Writes a rate and a total of event counts.
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
