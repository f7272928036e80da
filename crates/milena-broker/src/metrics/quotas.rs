//! Metrics of client quotas: usage, quotas and throttle times of each client that has a quota.

use std::fmt::Display;

use milena_machines::quota::{ClientUsage, QuotaKey};

use super::text::Text;
use crate::node::Node;

/// The name of a kind of quota in Kafka's metrics, and that of its measured value.
fn names(key: QuotaKey) -> (&'static str, &'static str) {
    match key {
        QuotaKey::ProducerByteRate => ("produce", "byte_rate"),
        QuotaKey::ConsumerByteRate => ("fetch", "byte_rate"),
        QuotaKey::RequestPercentage => ("request", "request_time"),
        QuotaKey::ControllerMutationRate => ("controllermutation", "tokens"),
        QuotaKey::ConnectionCreationRate => ("connection", "rate"),
    }
}

pub(super) fn render(node: &Node, text: &mut Text) {
    const QUOTA: &str = "milena_client_quota";
    const THROTTLES: &str = "milena_client_throttles_total";
    const THROTTLE_TIME: &str = "milena_client_throttle_time_ms_total";
    let usage = node.quotas.usage();
    for (key, clients) in &usage {
        let (kind, measured) = names(*key);
        let name = format!("kafka_server_{kind}_{measured}");
        text.family(
            &name,
            "gauge",
            "Usage of a client with a quota: a rate, or tokens that are left.",
        );
        for client in clients {
            text.sample(&name, &labels(client)[..2], client.measured);
        }
        let name = format!("kafka_server_{kind}_throttle_time");
        text.family(&name, "gauge", "Average throttle time of a client in milliseconds.");
        for client in clients.iter().filter(|client| client.throttles > 0) {
            let average = client.throttled_ms as f64 / client.throttles as f64;
            text.sample(&name, &labels(client)[..2], average);
        }
    }
    type Value = fn(&ClientUsage) -> f64;
    let families: [(&str, &str, &str, Value); 3] = [
        (QUOTA, "gauge", "Quota of a client, by kind.", |client| {
            client.quota.unwrap_or(f64::INFINITY)
        }),
        (THROTTLES, "counter", "Responses with a throttle time.", |client| {
            client.throttles as f64
        }),
        (
            THROTTLE_TIME,
            "counter",
            "Sum of throttle times in milliseconds.",
            |client| client.throttled_ms as f64,
        ),
    ];
    for (name, metric_type, help, value) in families {
        text.family(name, metric_type, help);
        for (key, clients) in &usage {
            for client in clients {
                let [user, client_id] = labels(client);
                text.sample(name, &[("quota", key as &dyn Display), user, client_id], value(client));
            }
        }
    }
    text.single(
        "milena_limit_refusals_total",
        "counter",
        "Requests that were refused because of a limit (milena.max.*).",
        node.limit_log.refusals(),
    );
    text.single(
        "milena_client_quota_overflows",
        "gauge",
        "Kinds of quotas with more clients than milena.max.quota.clients.",
        node.quotas.overflows(),
    );
}

fn labels(client: &ClientUsage) -> [(&'static str, &dyn Display); 2] {
    [("user", &client.user), ("client_id", &client.client_id)]
}
