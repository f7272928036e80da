//! The admin client's keys, by name, but for those of TLS and SASL. Types, defaults and ranges are Kafka's where a row
//! does not say otherwise; `tests/it/admin_config.rs` compares.

use super::{
    Allowed::{self, Addresses, Between, OneOf, OneOfInAnyCase},
    ConfigType, Definition,
    consumer_table::NO_SECURITY,
    definition::{definitions, same, zero_is_minus_one},
};

/// Sorted by name.
pub(super) const ADMIN_CONFIGS: &[Definition] = definitions! {
    "bootstrap.controllers" List = "", high, default_only("controllers are asked through brokers; use bootstrap.servers"),
        about("Controllers to ask instead of brokers.");
    "bootstrap.servers" List, required, high, allowed(Addresses), alias(&[same("metadata.broker.list")]),
        kafka_has("", "there must be somebody to ask, and controllers are not asked"),
        about("Brokers to ask for the cluster first, as host:port. One that can be reached is enough.");
    "client.dns.lookup" String = "use_all_dns_ips", medium, allowed(DNS_LOOKUPS), default_only(NO_REVERSE_LOOKUP),
        about("How names of brokers become addresses: all addresses of a name are tried.");
    "client.id" String = "", medium,
        about("What brokers call this client in logs, metrics and quotas; if empty, adminclient- and a number.");
    "config.providers" List = "", default_only(NO_CLASSES),
        about("Java classes that look up values.");
    "connections.max.idle.ms" Long = "300000", medium,
        about("After how long without use a connection is closed; never, if negative.");
    "default.api.timeout.ms" Int = "60000", medium, at_least(0),
        about("How long a call may take, attempts and pauses included, that is given no deadline of its own.");
    "enable.metrics.push" Boolean = "false", default_only(NO_METRICS),
        about("Whether metrics are sent to brokers that ask for them.");
    "metadata.max.age.ms" Long = "300000", at_least(0), alias(&[same("topic.metadata.refresh.interval.ms")]),
        about("After how long brokers are looked up again, even if nothing seems to have changed.");
    "metadata.recovery.rebootstrap.trigger.ms" Long = "300000", at_least(0),
        about("After how long without metadata the client begins again at bootstrap.servers.");
    "metadata.recovery.strategy" String = "rebootstrap", allowed(RECOVERY_STRATEGIES),
        about("What to do when no known broker can be reached: begin again at bootstrap.servers, or nothing.");
    "metric.reporters" List = "org.apache.kafka.common.metrics.JmxReporter", default_or(&[""], NO_METRICS),
        about("Java classes that report metrics.");
    "metrics.num.samples" Int = "2", at_least(1), default_only(NO_METRICS),
        about("How many windows a rate or an average is computed from.");
    "metrics.recording.level" String = "INFO", allowed(RECORDING_LEVELS), default_only(NO_METRICS),
        about("Which metrics are kept.");
    "metrics.sample.window.ms" Long = "30000", at_least(0), default_only(NO_METRICS),
        about("How long a window is that a rate or an average is computed from.");
    "receive.buffer.bytes" Int = "-1", medium, at_least(-1), alias(&[zero_is_minus_one("socket.receive.buffer.bytes")]),
        kafka_has("65536", "the system knows the way to the broker better"),
        about("The size of a socket's receive buffer; -1 lets the system adapt it.");
    "reconnect.backoff.max.ms" Long = "1000", at_least(0),
        about("The longest pause between two attempts to connect. Without it, reconnect.backoff.ms is the only pause.");
    "reconnect.backoff.ms" Long = "50", at_least(0),
        about("The pause after the first failed attempt to connect; it doubles with each.");
    "request.timeout.ms" Int = "30000", medium, at_least(0), alias(&[same("socket.timeout.ms")]),
        about("How long a request may wait for its answer before its connection is given up.");
    "retries" Int = "2147483647", allowed(Between(0, 2_147_483_647)),
        about("How often a call is tried again; default.api.timeout.ms ends it too.");
    "retry.backoff.max.ms" Long = "1000", at_least(0),
        about("The longest pause before a call is tried again.");
    "retry.backoff.ms" Long = "100", at_least(0),
        about("The pause before a call is tried again; it doubles with each attempt.");
    "security.protocol" String = "PLAINTEXT", medium, allowed(SECURITY_PROTOCOLS), default_only(NO_SECURITY),
        about("How to talk to brokers.");
    "security.providers" String, default_only(NO_CLASSES),
        about("Java classes that implement security.");
    "send.buffer.bytes" Int = "-1", medium, at_least(-1), alias(&[zero_is_minus_one("socket.send.buffer.bytes")]),
        kafka_has("131072", "the system knows the way to the broker better; as for receive.buffer.bytes"),
        about("The size of a socket's send buffer; -1 lets the system adapt it.");
    "socket.connection.setup.timeout.max.ms" Long = "30000", medium, at_least(0),
        about("The longest time to wait for a connection, after several attempts.");
    "socket.connection.setup.timeout.ms" Long = "10000", medium, at_least(0),
        about("How long to wait for a connection; it doubles with each attempt.");
};

const DNS_LOOKUPS: Allowed = OneOf(&["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]);
const RECOVERY_STRATEGIES: Allowed = OneOfInAnyCase(&["REBOOTSTRAP", "NONE"]);
const RECORDING_LEVELS: Allowed = OneOf(&["INFO", "DEBUG", "TRACE"]);
const SECURITY_PROTOCOLS: Allowed = OneOfInAnyCase(&["SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"]);

const NO_CLASSES: &str = "Java classes cannot be loaded";
const NO_METRICS: &str = "the admin client keeps no metrics";
const NO_REVERSE_LOOKUP: &str = "addresses are not looked up in reverse, which only Kerberos needs";
