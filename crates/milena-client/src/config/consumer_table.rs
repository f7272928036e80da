//! The consumer's keys, by name, but for those of TLS and SASL. Types, defaults and ranges are Kafka's where a row does
//! not say otherwise; `tests/it/config_facts.rs` compares.

use super::{
    Allowed::{self, Addresses, Assignors, Deserializer, NotEmpty, OneOf, OneOfInAnyCase, ResetPolicy, ResourceName},
    ConfigType, Definition,
    definition::{definitions, kilobytes, same, zero_is_minus_one},
};

/// Sorted by name.
pub(super) const CONSUMER_CONFIGS: &[Definition] = definitions! {
    "allow.auto.create.topics" Boolean = "true", medium,
        about("Whether asking for a topic may create it, if the broker allows that too.");
    "auto.commit.interval.ms" Int = "5000", at_least(0),
        about("How often positions are committed, with enable.auto.commit.");
    "auto.offset.reset" String = "latest", medium, allowed(ResetPolicy),
        about("Where to begin without a valid committed offset: at the earliest or latest record, at the first one that \
               is not older than a duration (by_duration:P7D), or with an error (none). librdkafka's smallest, \
               beginning, largest, end and error are understood.");
    "bootstrap.servers" List, required, high, allowed(Addresses), alias(&[same("metadata.broker.list")]),
        about("Brokers to ask for the cluster first, as host:port. One that can be reached is enough.");
    "check.crcs" Boolean = "true",
        about("Whether the checksum of every batch is checked.");
    "client.dns.lookup" String = "use_all_dns_ips", medium, allowed(DNS_LOOKUPS), default_only(NO_REVERSE_LOOKUP),
        about("How names of brokers become addresses: all addresses of a name are tried.");
    "client.id" String = "",
        about("What brokers call this client in logs, metrics and quotas; if empty, consumer-, the group and its \
               instance id or a number.");
    "client.rack" String = "",
        about("Where this client is: it reads from a replica in the same rack if the broker lets it.");
    "config.providers" List = "", default_only(NO_CLASSES),
        about("Java classes that look up values.");
    "connections.max.idle.ms" Long = "540000", medium,
        about("After how long without use a connection is closed; never, if negative.");
    "default.api.timeout.ms" Int = "60000", medium, at_least(0),
        about("How long a call may take that is given no deadline of its own.");
    "enable.auto.commit" Boolean = "true", medium, alias(&[same("auto.commit.enable")]),
        about("Whether positions are committed in the background, from poll. Without group.id it is false.");
    "enable.metrics.push" Boolean = "false", default_only(NO_METRICS_PUSH),
        kafka_has("true", "metrics are read from the consumer; it does not push them to brokers"),
        about("Whether metrics are sent to brokers that ask for them.");
    "exclude.internal.topics" Boolean = "true", medium,
        about("Whether a pattern leaves out Kafka's own topics, such as __consumer_offsets.");
    "fetch.max.bytes" Int = "52428800", medium, at_least(0),
        about("How many bytes a broker may answer a fetch with; the first batch may be larger.");
    "fetch.max.wait.ms" Int = "500", at_least(0), alias(&[same("fetch.wait.max.ms")]),
        about("How long a broker waits for fetch.min.bytes before it answers.");
    "fetch.min.bytes" Int = "1", high, at_least(0),
        about("How many bytes a broker waits for before it answers a fetch.");
    "group.id" String, high, allowed(NotEmpty),
        about("The group that shares the partitions and remembers the offsets. Needed to subscribe and to commit.");
    "group.instance.id" String, medium, allowed(ResourceName),
        about("The name of a static member: a restart within session.timeout.ms moves no partition.");
    "group.protocol" String = "classic", high, allowed(GROUP_PROTOCOLS),
        about("Who assigns partitions: a member of the group (classic) or the broker (consumer).");
    "group.remote.assignor" String, medium,
        about("The broker's assignor, with group.protocol=consumer; the broker chooses if there is none.");
    "heartbeat.interval.ms" Int = "3000", high, at_least(1),
        about("How often a classic member says that it lives; about a third of session.timeout.ms.");
    "interceptor.classes" List = "", default_only(INTERCEPTORS_IN_CODE),
        about("Java classes that see records and commits.");
    "internal.throw.on.fetch.stable.offset.unsupported" Boolean = "false", hidden, default_only(INTERNAL),
        about("A switch of Kafka Streams.");
    "isolation.level" String = "read_uncommitted", medium, allowed(ISOLATION_LEVELS),
        about("Whether records of open and aborted transactions are handed out (read_uncommitted) or not \
               (read_committed). read_committed alone is not exactly once: a record is handled again after a crash \
               before its offset is committed, unless its outcome and its offset are written in one transaction.");
    "key.deserializer" Class = "bytes", high, allowed(Deserializer), kafka_demands_one(BYTES_BY_DEFAULT),
        about("What keys are: string, bytes, i16, i32, i64, f32, f64, bool, uuid, json or void. Kafka's classes of \
               these are understood. Consumer::decode and milena consume read records by it; methods that name a type \
               do not.");
    "max.partition.fetch.bytes" Int = "1048576", high, at_least(0), alias(&[same("fetch.message.max.bytes")]),
        about("How many bytes of one partition a broker may answer with; the first batch may be larger.");
    "max.poll.interval.ms" Int = "300000", medium, at_least(1),
        about("How long the application may take between two polls before its partitions go to others.");
    "max.poll.records" Int = "500", medium, at_least(1),
        about("How many records a poll returns at most. It does not change what is fetched.");
    "metadata.max.age.ms" Long = "300000", at_least(0), alias(&[same("topic.metadata.refresh.interval.ms")]),
        about("After how long topics and brokers are looked up again, even if nothing seems to have changed.");
    "metadata.recovery.rebootstrap.trigger.ms" Long = "300000", at_least(0),
        about("After how long without metadata the client begins again at bootstrap.servers.");
    "metadata.recovery.strategy" String = "rebootstrap", allowed(RECOVERY_STRATEGIES),
        about("What to do when no known broker can be reached: begin again at bootstrap.servers, or nothing.");
    "metric.reporters" List = "org.apache.kafka.common.metrics.JmxReporter", default_or(&[""], NO_JMX),
        about("Java classes that report metrics.");
    "metrics.num.samples" Int = "2", at_least(1),
        about("How many windows a rate or an average is computed from.");
    "metrics.recording.level" String = "INFO", allowed(RECORDING_LEVELS), default_only(ONE_LEVEL),
        about("Which metrics are kept.");
    "metrics.sample.window.ms" Long = "30000", at_least(0),
        about("How long a window is that a rate or an average is computed from.");
    "milena.fetch.buffer.bytes" Long = "33554432", medium, at_least(1024),
        alias(&[kilobytes("queued.max.messages.kbytes")]),
        about("How many bytes the consumer holds that were fetched and not yet handed out, all partitions together, \
               decompressed ones included. One batch always has room.");
    "milena.io" String = "thread", medium, allowed(RECORDS_IO),
        about("Where the connections live that carry records. thread: on a thread of their own, which goes on whatever \
               the application does. runtime: on the tokio runtime on which the client was made, which must stay; \
               single records come and go sooner and cost less, but wait while that runtime is kept busy. Heartbeats \
               stay on the thread.");
    "milena.profile" String, medium, allowed(PROFILES),
        about("Defaults for a purpose. throughput: fetch.min.bytes 1048576, fetch.max.wait.ms 500, max.poll.records \
               1000, max.partition.fetch.bytes 1048576. latency: 1, 50, 100, 262144. What is set on its own wins.");
    "partition.assignment.strategy" List
        = "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        medium, allowed(Assignors),
        about("How a classic group shares its partitions, best first: range, roundrobin, sticky, cooperative-sticky, or \
               Kafka's classes of these. The group takes one that all members have.");
    "receive.buffer.bytes" Int = "-1", medium, at_least(-1), alias(&[zero_is_minus_one("socket.receive.buffer.bytes")]),
        kafka_has("65536", "a fixed window of 64 KB slows down every connection that is not local"),
        about("The size of a socket's receive buffer; -1, the default, lets the system adapt it.");
    "reconnect.backoff.max.ms" Long = "1000", at_least(0),
        about("The longest pause between two attempts to connect. Without it, reconnect.backoff.ms is the only pause.");
    "reconnect.backoff.ms" Long = "50", at_least(0),
        about("The pause after the first failed attempt to connect; it doubles with each.");
    "request.timeout.ms" Int = "30000", medium, at_least(0), alias(&[same("socket.timeout.ms")]),
        about("How long a request may wait for its answer before its connection is given up.");
    "retry.backoff.max.ms" Long = "1000", at_least(0),
        about("The longest pause before a request is tried again.");
    "retry.backoff.ms" Long = "100", at_least(0),
        about("The pause before a failed request is tried again; it doubles with each attempt.");
    "security.protocol" String = "PLAINTEXT", medium, allowed(SECURITY_PROTOCOLS), default_only(NO_SECURITY),
        about("How to talk to brokers.");
    "security.providers" String, default_only(NO_CLASSES),
        about("Java classes that implement security.");
    "send.buffer.bytes" Int = "-1", medium, at_least(-1), alias(&[zero_is_minus_one("socket.send.buffer.bytes")]),
        kafka_has("131072", "the system knows the way to the broker better; as for receive.buffer.bytes"),
        about("The size of a socket's send buffer; -1, the default, lets the system adapt it.");
    "session.timeout.ms" Int = "45000", high, at_least(1),
        about("After how long without a heartbeat the broker takes a classic member for dead.");
    "share.acknowledgement.mode" String = "implicit", medium, allowed(ACKNOWLEDGEMENT_MODES), default_only(NO_SHARE),
        about("How a share consumer acknowledges records.");
    "share.acquire.mode" String = "BATCH_OPTIMIZED", medium, allowed(ACQUIRE_MODES),
        default_or(&["batch_optimized"], NO_SHARE),
        about("How a share consumer acquires records.");
    "socket.connection.setup.timeout.max.ms" Long = "30000", medium, at_least(0),
        about("The longest time to wait for a connection, after several attempts.");
    "socket.connection.setup.timeout.ms" Long = "10000", medium, at_least(0),
        about("How long to wait for a connection; it doubles with each attempt.");
    "value.deserializer" Class = "bytes", high, allowed(Deserializer), kafka_demands_one(BYTES_BY_DEFAULT),
        about("What values are; as for key.deserializer.");
};

pub(super) const DNS_LOOKUPS: Allowed = OneOf(&["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]);
const GROUP_PROTOCOLS: Allowed = OneOfInAnyCase(&["CONSUMER", "CLASSIC"]);
const ISOLATION_LEVELS: Allowed = OneOf(&["read_committed", "read_uncommitted"]);
pub(super) const RECOVERY_STRATEGIES: Allowed = OneOfInAnyCase(&["REBOOTSTRAP", "NONE"]);
pub(super) const RECORDING_LEVELS: Allowed = OneOf(&["INFO", "DEBUG", "TRACE"]);
pub(super) const SECURITY_PROTOCOLS: Allowed = OneOfInAnyCase(&["SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"]);
const ACKNOWLEDGEMENT_MODES: Allowed = OneOf(&["implicit", "explicit"]);
const ACQUIRE_MODES: Allowed = OneOf(&["batch_optimized", "record_limit"]);
pub(super) const RECORDS_IO: Allowed = OneOf(&["thread", "runtime"]);
const PROFILES: Allowed = OneOf(&["throughput", "latency"]);

pub(super) const NO_SECURITY: &str = "TLS and SASL are not supported yet; use a PLAINTEXT listener of the broker";
const BYTES_BY_DEFAULT: &str = "deserializers are usually types in Rust; without one, bytes are handed out as they are";
pub(super) const INTERCEPTORS_IN_CODE: &str = "interceptors are given in code, not as Java classes";
const INTERNAL: &str = "it is internal to Kafka Streams";
pub(super) const NO_CLASSES: &str = "Java classes cannot be loaded";
const NO_JMX: &str = "there is no JMX and Java classes cannot be loaded; metrics are read from the consumer";
const NO_METRICS_PUSH: &str = "metrics are not pushed to brokers; they are read from the consumer";
pub(super) const NO_REVERSE_LOOKUP: &str = "addresses are not looked up in reverse, which only Kerberos needs";
const NO_SHARE: &str = "share groups are not supported";
pub(super) const ONE_LEVEL: &str = "all metrics are always kept";
