//! Keys that all clients share with the same default. Types, defaults and ranges are Kafka's; `tests/it/config_facts.rs`
//! compares them.

use milena_config::{
    Alias,
    Allowed::{self, OneOf, OneOfInAnyCase},
    Definition, SecurityProtocol, definitions,
};

use super::MetadataRecovery;

/// Sorted by name.
pub(super) const COMMON_CONFIGS: &[Definition] = definitions! {
    "client.dns.lookup" String = "use_all_dns_ips", medium, allowed(DNS_LOOKUPS), default_only(NO_REVERSE_LOOKUP),
        about("How host names of brokers are resolved. All addresses of a name are tried.");
    "config.providers" List = "",
        about("Names of providers of ${NAME:PATH:KEY} in values. config.providers.NAME.class is one of Kafka's \
            FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider. The names file, dir and env need no \
            declaration.");
    "metadata.max.age.ms" Long = "300000", at_least(0), alias(&[Alias::same("topic.metadata.refresh.interval.ms")]),
        about("Interval after which metadata is refreshed, even without a sign of a change.");
    "metadata.recovery.rebootstrap.trigger.ms" Long = "300000", at_least(0),
        about("Time without metadata after which the client bootstraps again.");
    "metadata.recovery.strategy" String = "rebootstrap", allowed(OneOfInAnyCase(MetadataRecovery::NAMES)),
        about("Reaction if no known broker is reachable: bootstrap again from bootstrap.servers, or nothing.");
    "reconnect.backoff.max.ms" Long = "1000", at_least(0),
        about("Maximum backoff between attempts to connect. If only reconnect.backoff.ms is set, that is the maximum.");
    "reconnect.backoff.ms" Long = "50", at_least(0),
        about("Backoff after the first failed attempt to connect. It doubles with each attempt.");
    "request.timeout.ms" Int = "30000", medium, at_least(0), alias(&[Alias::same("socket.timeout.ms")]),
        about("Maximum time to wait for a response. After it the connection is closed.");
    "retry.backoff.max.ms" Long = "1000", at_least(0),
        about("Maximum backoff before a failed request is retried.");
    "retry.backoff.ms" Long = "100", at_least(0),
        about("Backoff before a failed request is retried. It doubles with each attempt.");
    "security.protocol" String = "PLAINTEXT", medium, allowed(OneOfInAnyCase(SecurityProtocol::NAMES)),
        about("Protocol of connections to brokers: with or without TLS (SSL) and authentication (SASL).");
    "security.providers" String, ignored(NO_CLASSES),
        about("Java classes that implement security algorithms.");
    "socket.connection.setup.timeout.max.ms" Long = "30000", medium, at_least(0),
        about("Maximum time to wait for a connection, after several attempts.");
    "socket.connection.setup.timeout.ms" Long = "10000", medium, at_least(0),
        about("Time to wait for a connection. It doubles with each attempt.");
};

const DNS_LOOKUPS: Allowed = OneOf(&["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]);
pub(super) const RECORDING_LEVELS: Allowed = OneOf(&["INFO", "DEBUG", "TRACE"]);

pub(super) const INTERCEPTORS_IN_CODE: &str = "interceptors are given in code, not as Java classes";
pub(super) const NO_CLASSES: &str = "Java classes cannot be loaded";
const NO_REVERSE_LOOKUP: &str = "reverse DNS lookup, which only Kerberos needs, is not done";
pub(super) const ALL_METRICS: &str = "all metrics are always recorded";
pub(super) const BOOTSTRAP: &str = "Brokers to bootstrap from, as host:port. One that is reachable is enough.";
pub(super) const IDLE: &str = "Idle time after which a connection is closed; negative for never.";
pub(super) const IO: &str = "Where the connections for records run. thread: on a thread of their own, independent of the \
    application's executor. runtime: on the tokio runtime that created the client, which must keep running; single records \
    have lower latency and cost less, but wait while that runtime is busy. Heartbeats stay on the thread.";
pub(super) const RECEIVE_BUFFER: &str = "Size of the socket receive buffer; -1 lets the operating system adapt it.";
pub(super) const SEND_BUFFER: &str = "Size of the socket send buffer; -1 lets the operating system adapt it.";
pub(super) const SAMPLES: &str = "Number of windows from which rates and averages are computed.";
pub(super) const SAMPLE_WINDOW: &str = "Length of a window from which rates and averages are computed.";
pub(super) const SYSTEM_BUFFER: &str = "the operating system adapts the buffer to the connection; as for \
    receive.buffer.bytes";
