//! Keys of the admin client, without those of `common_table.rs` and `security_table.rs`. Types, defaults and ranges are
//! Kafka's unless a row says otherwise; `tests/it/admin_config.rs` compares them.

use milena_config::{
    Alias,
    Allowed::{Between, Custom},
    Definition, definitions,
};

use super::super::{
    common_table::{
        BOOTSTRAP, IDLE, RECEIVE_BUFFER, RECORDING_LEVELS, SAMPLE_WINDOW, SAMPLES, SEND_BUFFER, SYSTEM_BUFFER,
    },
    types::SERVERS,
};

/// Sorted by name.
pub(crate) const ADMIN_CONFIGS: &[Definition] = definitions! {
    "bootstrap.controllers" List = "", high,
        default_only("requests to controllers go through brokers; use bootstrap.servers"),
        about("Controllers to connect to in place of brokers.");
    "bootstrap.servers" List, required, high, allowed(Custom(&SERVERS)), alias(&[Alias::same("metadata.broker.list")]),
        kafka_has("", "bootstrap.controllers, the alternative in Kafka, is not supported"),
        about(BOOTSTRAP);
    "client.id" String = "", medium,
        about("Name of this client in logs, metrics and quotas of brokers. If empty: adminclient- and a number.");
    "connections.max.idle.ms" Long = "300000", medium, about(IDLE);
    "default.api.timeout.ms" Int = "60000", medium, at_least(0),
        about("Timeout of calls that are given none, with their retries and backoffs.");
    "enable.metrics.push" Boolean = "false", default_only(NO_METRICS),
        about("Whether metrics are pushed to brokers that subscribe to them.");
    "metric.reporters" List = "org.apache.kafka.common.metrics.JmxReporter", default_or(&[""], NO_METRICS),
        about("Java classes that report metrics.");
    "metrics.num.samples" Int = "2", at_least(1), default_only(NO_METRICS), about(SAMPLES);
    "metrics.recording.level" String = "INFO", allowed(RECORDING_LEVELS), default_only(NO_METRICS),
        about("Level up to which metrics are recorded.");
    "metrics.sample.window.ms" Long = "30000", at_least(0), default_only(NO_METRICS), about(SAMPLE_WINDOW);
    "receive.buffer.bytes" Int = "-1", medium, at_least(-1),
        alias(&[Alias::zero_is_minus_one("socket.receive.buffer.bytes")]),
        kafka_has("65536", "the operating system adapts the buffer to the connection"),
        about(RECEIVE_BUFFER);
    "retries" Int = "2147483647", allowed(Between(0, 2_147_483_647)),
        about("Maximum number of retries of a call, within default.api.timeout.ms.");
    "send.buffer.bytes" Int = "-1", medium, at_least(-1),
        alias(&[Alias::zero_is_minus_one("socket.send.buffer.bytes")]),
        kafka_has("131072", SYSTEM_BUFFER), about(SEND_BUFFER);
};

const NO_METRICS: &str = "the admin client has no metrics";
