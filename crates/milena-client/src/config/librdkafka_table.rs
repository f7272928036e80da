//! Keys that only librdkafka has, for all clients. Keys with an equivalent in Kafka are aliases in the other tables; these
//! have none, so they take only values that ask for what this client does anyway.

use milena_config::{Definition, definitions};

/// Sorted by name. Defaults are librdkafka's.
pub(super) const LIBRDKAFKA_CONFIGS: &[Definition] = definitions! {
    "api.version.fallback.ms" Int = "0", default_only(OLD_BROKERS),
        about("Time for which a broker is taken for an old one.");
    "api.version.request" Boolean = "true", default_only(OLD_BROKERS),
        about("Whether brokers are asked for their API versions.");
    "api.version.request.timeout.ms" Int = "10000", default_only("it is request.timeout.ms"),
        about("Timeout of that request.");
    "broker.address.family" String = "any", default_only("all addresses of a name are tried"),
        about("IPv4, IPv6 or both.");
    "broker.address.ttl" Int = "1000", default_only("a name is resolved for every connection"),
        about("Time for which a resolved address is cached.");
    "broker.version.fallback" String = "0.10.0", default_only(OLD_BROKERS),
        about("Version of brokers that do not report it.");
    "coordinator.query.interval.ms" Int = "600000", default_only("the coordinator is looked up when it has moved"),
        about("Interval between lookups of the coordinator.");
    "debug" String = "", default_only(LOGS), about("Debug contexts to log.");
    "enable.random.seed" Boolean = "true", default_only("there is no such generator"),
        about("Whether C's random number generator is seeded.");
    "log.connection.close" Boolean = "true", default_only(LOGS), about("Whether closed connections are logged.");
    "log.queue" Boolean = "false", default_only(LOGS), about("Whether logs go to a queue.");
    "log.thread.name" Boolean = "true", default_only(LOGS), about("Whether logs name the thread.");
    "log_level" Int = "6", default_only(LOGS), about("Log level.");
    "plugin.library.paths" String = "", default_only("libraries cannot be loaded"), about("Libraries to load.");
    "receive.message.max.bytes" Int = "100000000",
        default_only("responses are limited by the sizes of their requests"),
        about("Maximum size of a response.");
    "reconnect.backoff.jitter.ms" Int = "0", default_only("use reconnect.backoff.ms and reconnect.backoff.max.ms"),
        about("Jitter of the reconnect backoff.");
    "socket.blocking.max.ms" Int = "1000", default_only("no operation blocks"), about("Maximum time to block.");
    "socket.keepalive.enable" Boolean = "false",
        default_only("request.timeout.ms detects a dead connection"),
        about("Whether TCP keepalive is enabled.");
    "socket.max.fails" Int = "1", default_only("a connection is closed with the first request that times out"),
        about("Number of timeouts after which a connection is closed.");
    "socket.nagle.disable" Boolean = "true", default_only("Nagle's algorithm is always disabled"),
        about("Whether Nagle's algorithm is disabled.");
    "statistics.interval.ms" Int = "0", default_only("metrics are read from the client"),
        about("Interval between emitted statistics.");
    "topic.metadata.propagation.max.ms" Int = "30000",
        default_only("an unknown topic is looked up again until it exists"),
        about("Time for which a new topic may be unknown.");
    "topic.metadata.refresh.fast.cnt" Int = "10", default_only("use retry.backoff.ms"),
        about("Number of fast lookups of a leader.");
    "topic.metadata.refresh.fast.interval.ms" Int = "100", default_only("use retry.backoff.ms"),
        about("Interval between fast lookups of a leader.");
    "topic.metadata.refresh.sparse" Boolean = "true", default_only("only topics in use are looked up"),
        about("Whether only topics in use are looked up.");
};

/// Objects of OpenSSL, which are not settings.
pub(super) const OPENSSL_OBJECTS: &[&str] = &["ssl_ca", "ssl_certificate", "ssl_engine_callback_data", "ssl_key"];

/// Callbacks, which are not settings.
pub(super) const CALLBACKS: &[&str] = &[
    "background_event_cb",
    "closesocket_cb",
    "connect_cb",
    "consume_cb",
    "dr_cb",
    "dr_msg_cb",
    "enabled_events",
    "error_cb",
    "interceptors",
    "log_cb",
    "msg_order_cmp",
    "oauthbearer_token_refresh_cb",
    "offset_commit_cb",
    "opaque",
    "open_cb",
    "partitioner_cb",
    "rebalance_cb",
    "resolve_cb",
    "socket_cb",
    "stats_cb",
    "throttle_cb",
];

const LOGS: &str = "the `tracing` subscriber selects what is logged";
const OLD_BROKERS: &str = "brokers older than 0.10 are not supported";
