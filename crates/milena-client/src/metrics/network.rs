//! Network metrics.

use super::{
    stats::{Sensor, Window},
    writer::Writer,
};
use crate::net::{NodeNumbers, Numbers, Role};

/// Sums over all connections of a client.
#[derive(Debug)]
pub(super) struct NetworkMetrics {
    numbers: Numbers,
    bytes_in: Sensor,
    bytes_out: Sensor,
    requests: Sensor,
    responses: Sensor,
    connected: Sensor,
    disconnected: Sensor,
    authenticated: Sensor,
    authentication_failed: Sensor,
    reauthenticated: Sensor,
    reauthentication_failed: Sensor,
}

impl NetworkMetrics {
    pub(super) fn new(window: Window) -> Self {
        let sensor = || Sensor::new(window);
        Self {
            numbers: Numbers::default(),
            bytes_in: sensor(),
            bytes_out: sensor(),
            requests: sensor(),
            responses: sensor(),
            connected: sensor(),
            disconnected: sensor(),
            authenticated: sensor(),
            authentication_failed: sensor(),
            reauthenticated: sensor(),
            reauthentication_failed: sensor(),
        }
    }

    /// Adds the changes of the connections' counters since the last call.
    pub(super) fn record(&mut self, now_ms: i64, numbers: Numbers) {
        let old = std::mem::replace(&mut self.numbers, numbers);
        let grown = |sensor: &mut Sensor, new: u64, old: u64| {
            if new > old {
                sensor.record(now_ms, (new - old) as f64);
            }
        };
        grown(&mut self.bytes_in, numbers.bytes_in, old.bytes_in);
        grown(&mut self.bytes_out, numbers.bytes_out, old.bytes_out);
        grown(&mut self.requests, numbers.requests, old.requests);
        grown(&mut self.responses, numbers.responses, old.responses);
        grown(&mut self.connected, numbers.connections_made, old.connections_made);
        grown(
            &mut self.disconnected,
            numbers.connections_closed,
            old.connections_closed,
        );
        for (sensor, new, old) in [
            (&mut self.authenticated, numbers.authentications, old.authentications),
            (
                &mut self.authentication_failed,
                numbers.authentications_failed,
                old.authentications_failed,
            ),
            (
                &mut self.reauthenticated,
                numbers.reauthentications,
                old.reauthentications,
            ),
            (
                &mut self.reauthentication_failed,
                numbers.reauthentications_failed,
                old.reauthentications_failed,
            ),
        ] {
            grown(sensor, new, old);
        }
    }

    fn write_authentication(&self, out: &mut Writer, group: &'static str) {
        for (rate, total, sensor) in [
            (
                "successful-authentication-rate",
                "successful-authentication-total",
                &self.authenticated,
            ),
            (
                "failed-authentication-rate",
                "failed-authentication-total",
                &self.authentication_failed,
            ),
            (
                "successful-reauthentication-rate",
                "successful-reauthentication-total",
                &self.reauthenticated,
            ),
            (
                "failed-reauthentication-rate",
                "failed-reauthentication-total",
                &self.reauthentication_failed,
            ),
        ] {
            out.rate_total(group, rate, total, sensor);
        }
        let numbers = &self.numbers;
        let average_ms = numbers.reauthentication_ms_total as f64 / numbers.reauthentications as f64;
        out.gauge(group, "reauthentication-latency-avg", average_ms);
        let max_ms = if numbers.reauthentications == 0 {
            f64::NAN
        } else {
            numbers.reauthentication_ms_max as f64
        };
        out.gauge(group, "reauthentication-latency-max", max_ms);
    }

    pub(super) fn write(&self, out: &mut Writer, group: &'static str) {
        let Numbers {
            connections_made,
            connections_closed,
            ..
        } = self.numbers;
        out.gauge(
            group,
            "connection-count",
            connections_made.saturating_sub(connections_closed) as f64,
        );
        out.rate_total(
            group,
            "connection-creation-rate",
            "connection-creation-total",
            &self.connected,
        );
        out.rate_total(
            group,
            "connection-close-rate",
            "connection-close-total",
            &self.disconnected,
        );
        self.write_authentication(out, group);
        out.rate_total(group, "incoming-byte-rate", "incoming-byte-total", &self.bytes_in);
        out.rate_total(group, "outgoing-byte-rate", "outgoing-byte-total", &self.bytes_out);
        out.rate_total(group, "request-rate", "request-total", &self.requests);
        out.rate_total(group, "response-rate", "response-total", &self.responses);
        let both = self.requests.rate(out.now_ms) + self.responses.rate(out.now_ms);
        out.gauge(group, "network-io-rate", both);
        out.counter(
            group,
            "network-io-total",
            self.requests.total() + self.responses.total(),
        );
    }
}

/// Writes the metrics of the connections to one broker.
pub(super) fn write_node(out: &mut Writer, group: &'static str, node: &NodeNumbers) {
    let id = match node.role {
        Role::Data => format!("node-{}", node.node_id),
        Role::Coordinator => format!("node-{}-coordinator", node.node_id),
        Role::Records => format!("node-{}-records", node.node_id),
    };
    out.tags.push(("node-id", id));
    let numbers = &node.numbers;
    out.counter(group, "request-total", numbers.requests as f64);
    out.counter(group, "response-total", numbers.responses as f64);
    out.counter(group, "outgoing-byte-total", numbers.bytes_out as f64);
    out.counter(group, "incoming-byte-total", numbers.bytes_in as f64);
    let responses = numbers.responses as f64;
    let latency_ms = numbers.latency_us_total as f64 / 1000.0 / responses;
    out.gauge(group, "request-latency-avg", latency_ms);
    out.gauge(group, "request-latency-max", numbers.latency_us_max as f64 / 1000.0);
    out.reset_tags();
}
