//! Keys that only librdkafka has. Those that mean what a key of Kafka means are aliases in `consumer_table.rs`; these do
//! not, and so only values are accepted that ask for what this client does anyway.

use super::{ConfigType, Definition, consumer_table::NO_SECURITY, definition::definitions};

/// Sorted by name. Defaults are librdkafka's.
pub(super) const LIBRDKAFKA_CONFIGS: &[Definition] = definitions! {
    "api.version.fallback.ms" Int = "0", default_only(OLD_BROKERS), about("How long to believe that a broker is old.");
    "api.version.request" Boolean = "true", default_only(OLD_BROKERS),
        about("Whether brokers are asked what they speak.");
    "api.version.request.timeout.ms" Int = "10000", default_only("it is request.timeout.ms"),
        about("How long to wait for that.");
    "broker.address.family" String = "any", default_only("all addresses of a name are tried"),
        about("IPv4, IPv6 or both.");
    "broker.address.ttl" Int = "1000", default_only("a name is looked up for every connection"),
        about("How long an address is remembered.");
    "broker.version.fallback" String = "0.10.0", default_only(OLD_BROKERS),
        about("How old a broker is that does not say.");
    "consume.callback.max.messages" Int = "0", default_only("records come from poll; use max.poll.records"),
        about("How many records a callback gets.");
    "coordinator.query.interval.ms" Int = "600000", default_only("the coordinator is looked up when it has moved"),
        about("How often the coordinator is looked up.");
    "debug" String = "", default_only(LOGS), about("What to log.");
    "enable.auto.offset.store" Boolean = "true",
        default_only("commit the offsets of what is done yourself, with enable.auto.commit=false"),
        about("Whether what was handed out counts as done.");
    "enable.partition.eof" Boolean = "false",
        default_only("compare the position with the end offset, or ask for the lag"),
        about("Whether the end of a partition is an event.");
    "enable.random.seed" Boolean = "true", default_only("it has no such generator"),
        about("Whether C's random numbers are seeded.");
    "fetch.error.backoff.ms" Int = "500", default_only("use retry.backoff.ms"),
        about("The pause after a failed fetch.");
    "fetch.queue.backoff.ms" Int = "1000",
        default_only("the next fetch is sent as soon as there is room in milena.fetch.buffer.bytes"),
        about("The pause after a full queue.");
    "group.protocol.type" String = "consumer", default_only("a consumer's group is of this type"),
        about("The type of a classic group.");
    "log.connection.close" Boolean = "true", default_only(LOGS), about("Whether a closed connection is logged.");
    "log.queue" Boolean = "false", default_only(LOGS), about("Whether logs go to a queue.");
    "log.thread.name" Boolean = "true", default_only(LOGS), about("Whether logs name the thread.");
    "log_level" Int = "6", default_only(LOGS), about("How much to log.");
    "message.copy.max.bytes" Int = "65535", default_only("records are never copied"),
        about("Below which size a record is copied.");
    "offset.store.method" String = "broker", default_only("offsets are stored by the broker"),
        about("Where offsets are stored.");
    "plugin.library.paths" String = "", default_only("libraries cannot be loaded"), about("Libraries to load.");
    "queued.min.messages" Int = "100000", default_only("use milena.fetch.buffer.bytes"),
        about("How many records to hold for each partition.");
    "receive.message.max.bytes" Int = "100000000",
        default_only("an answer may be as large as what was asked for"),
        about("The largest answer.");
    "reconnect.backoff.jitter.ms" Int = "0", default_only("use reconnect.backoff.ms and reconnect.backoff.max.ms"),
        about("How much chance a pause has.");
    "socket.blocking.max.ms" Int = "1000", default_only("nothing blocks"), about("How long to block.");
    "socket.keepalive.enable" Boolean = "false",
        default_only("request.timeout.ms notices a dead connection"),
        about("Whether TCP sends signs of life.");
    "socket.max.fails" Int = "1", default_only("a connection is given up with the first request that times out"),
        about("How often a connection may fail.");
    "socket.nagle.disable" Boolean = "true", default_only("requests are never held back"),
        about("Whether requests leave at once.");
    "statistics.interval.ms" Int = "0", default_only("metrics are read from the client"),
        about("How often statistics are emitted.");
    "topic.blacklist" String = "", default_only("put it into the pattern that you subscribe to"),
        about("Topics that are not seen.");
    "topic.metadata.propagation.max.ms" Int = "30000",
        default_only("an unknown topic is looked up again until it exists"),
        about("How long a new topic may be unknown.");
    "topic.metadata.refresh.fast.cnt" Int = "10", default_only("use retry.backoff.ms"),
        about("How often to look up a leader.");
    "topic.metadata.refresh.fast.interval.ms" Int = "100", default_only("use retry.backoff.ms"),
        about("How soon to look up a leader.");
    "topic.metadata.refresh.sparse" Boolean = "true", default_only("only topics that are needed are looked up"),
        about("Whether all topics are looked up.");
};

/// librdkafka's own keys of TLS and SASL, which are Kafka's under other names or more than Kafka has. A name that ends in
/// a dot stands for all that begin so.
pub(super) const SECURITY: &[&str] = &[
    "enable.sasl.oauthbearer.unsecure.jwt",
    "enable.ssl.certificate.verification",
    "https.",
    "sasl.",
    "ssl.",
    "ssl_ca",
    "ssl_certificate",
    "ssl_key",
];

pub(super) const SECURITY_REASON: &str = NO_SECURITY;

/// Callbacks, which are no settings.
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

pub(super) const CALLBACK_REASON: &str = "callbacks are given in code";

const LOGS: &str = "what is logged is chosen by the subscriber of `tracing`";
const OLD_BROKERS: &str = "brokers older than 0.10 are not supported";
