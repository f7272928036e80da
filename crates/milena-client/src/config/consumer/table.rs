//! Keys of the consumer, without those of `common_table.rs` and `security_table.rs`. Types, defaults and ranges are Kafka's
//! unless a row says otherwise; `tests/it/config_facts.rs` compares them.

use milena_config::{
    Alias,
    Allowed::{self, Custom, NotEmpty, OneOf, OneOfInAnyCase, ResourceName},
    Definition, definitions,
};

use super::{
    super::{
        common_table::{
            ALL_METRICS, BOOTSTRAP, IDLE, INTERCEPTORS_IN_CODE, IO, RECEIVE_BUFFER, RECORDING_LEVELS, SAMPLE_WINDOW,
            SAMPLES, SEND_BUFFER, SYSTEM_BUFFER,
        },
        types::{RecordsIo, SERVERS},
    },
    types::{ASSIGNORS, DESERIALIZER, GroupProtocolName, IsolationLevel, Profile, RESET_POLICY},
};

/// Sorted by name.
pub(crate) const CONSUMER_CONFIGS: &[Definition] = definitions! {
    "allow.auto.create.topics" Boolean = "true", medium,
        about("Whether a metadata request may create a topic, if the broker allows it too.");
    "auto.commit.interval.ms" Int = "5000", at_least(0),
        about("Interval between commits with enable.auto.commit.");
    "auto.offset.reset" String = "latest", medium, allowed(Custom(&RESET_POLICY)), value_aliases(OLD_RESET_POLICIES),
        about("Position without a valid committed offset: the earliest or latest record, the first record that is not \
               older than a duration (by_duration:P7D), or an error (none).");
    "bootstrap.servers" List, required, high, allowed(Custom(&SERVERS)), alias(&[Alias::same("metadata.broker.list")]),
        about(BOOTSTRAP);
    "check.crcs" Boolean = "true",
        about("Whether the checksum of every batch is verified.");
    "client.id" String = "",
        about("Name of this client in logs, metrics and quotas of brokers. If empty: consumer, the group, and the \
               instance id or a number, joined by dashes.");
    "client.rack" String = "",
        about("Rack of this client. With a broker that allows it, the consumer reads from a replica in the same rack.");
    "connections.max.idle.ms" Long = "540000", medium, about(IDLE);
    "default.api.timeout.ms" Int = "60000", medium, at_least(0),
        about("Timeout of calls that are given none.");
    "enable.auto.commit" Boolean = "true", medium, alias(&[Alias::same("auto.commit.enable")]),
        about("Whether poll commits the positions of earlier polls in the background. Without group.id it is false.");
    "enable.metrics.push" Boolean = "false", default_only(NO_METRICS_PUSH),
        kafka_has("true", "metrics are read from the consumer; it does not push them to brokers"),
        about("Whether metrics are pushed to brokers that subscribe to them.");
    "exclude.internal.topics" Boolean = "true", medium,
        about("Whether a subscription by pattern excludes internal topics, such as __consumer_offsets.");
    "fetch.max.bytes" Int = "52428800", medium, at_least(0),
        about("Maximum size of a fetch response. The first batch may be larger.");
    "fetch.max.wait.ms" Int = "500", at_least(0), alias(&[Alias::same("fetch.wait.max.ms")]),
        about("Maximum time for which a broker waits for fetch.min.bytes before it responds.");
    "fetch.min.bytes" Int = "1", high, at_least(0),
        about("Minimum size of a fetch response. A broker waits up to fetch.max.wait.ms for it.");
    "group.id" String, high, allowed(NotEmpty),
        about("Consumer group. Required to subscribe and to commit offsets.");
    "group.instance.id" String, medium, allowed(ResourceName),
        about("Id of a static member: a restart within session.timeout.ms causes no rebalance.");
    "group.protocol" String = "classic", high, allowed(OneOfInAnyCase(GroupProtocolName::NAMES)),
        about("Group protocol. classic: a member assigns the partitions. consumer (KIP-848): the broker assigns them.");
    "group.remote.assignor" String, medium,
        about("Assignor of the broker, with group.protocol=consumer. If unset, the broker chooses.");
    "heartbeat.interval.ms" Int = "3000", high, at_least(1),
        about("Interval between heartbeats (classic protocol). Set it to a third of session.timeout.ms or less.");
    "interceptor.classes" List = "", default_only(INTERCEPTORS_IN_CODE),
        about("Java classes that intercept records and commits.");
    "internal.throw.on.fetch.stable.offset.unsupported" Boolean = "false", hidden, default_only(INTERNAL),
        about("Internal to Kafka Streams.");
    "isolation.level" String = "read_uncommitted", medium, allowed(OneOf(IsolationLevel::NAMES)),
        about("Whether poll returns records of open and aborted transactions (read_uncommitted) or not (read_committed). \
               read_committed alone is not exactly-once: after a crash, records are handled again whose offsets were not \
               committed, unless results and offsets are written in one transaction.");
    "key.deserializer" Class = "bytes", high, allowed(Custom(&DESERIALIZER)), kafka_requires(BYTES_BY_DEFAULT),
        about("Deserializer of keys; Kafka's class names are accepted. Used by Consumer::decode and milena consume, not \
               by methods with a type parameter.");
    "max.partition.fetch.bytes" Int = "1048576", high, at_least(0), alias(&[Alias::same("fetch.message.max.bytes")]),
        about("Maximum size of the records of one partition in a fetch response. The first batch may be larger.");
    "max.poll.interval.ms" Int = "300000", medium, at_least(1),
        about("Maximum time between two polls. After it the member leaves the group and its partitions are reassigned.");
    "max.poll.records" Int = "500", medium, at_least(1),
        about("Maximum number of records that a poll returns. It does not affect fetching.");
    "metric.reporters" List = "org.apache.kafka.common.metrics.JmxReporter", default_or(&[""], NO_JMX),
        about("Java classes that report metrics.");
    "metrics.num.samples" Int = "2", at_least(1), about(SAMPLES);
    "metrics.recording.level" String = "INFO", allowed(RECORDING_LEVELS), default_only(ALL_METRICS),
        about("Level up to which metrics are recorded.");
    "metrics.sample.window.ms" Long = "30000", at_least(0), about(SAMPLE_WINDOW);
    "milena.fetch.buffer.bytes" Long = "33554432", medium, at_least(1024),
        alias(&[Alias::kilobytes("queued.max.messages.kbytes")]),
        about("Maximum size of fetched records that were not polled yet, for all partitions together, decompressed \
               records included. One batch always fits.");
    "milena.io" String = "thread", medium, allowed(OneOf(RecordsIo::NAMES)), about(IO);
    "milena.profile" String, medium, allowed(OneOf(Profile::NAMES)),
        about("Set of defaults for a purpose, listed below. Keys that are set win over it.");
    "partition.assignment.strategy" List
        = "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        medium, allowed(Custom(&ASSIGNORS)),
        about("Assignors of the classic protocol, preferred first; Kafka's class names are accepted. The group uses one \
               that all members have.");
    "receive.buffer.bytes" Int = "-1", medium, at_least(-1),
        alias(&[Alias::zero_is_minus_one("socket.receive.buffer.bytes")]),
        kafka_has("65536", "a fixed window of 64 KiB slows down every connection that is not local"),
        about(RECEIVE_BUFFER);
    "send.buffer.bytes" Int = "-1", medium, at_least(-1),
        alias(&[Alias::zero_is_minus_one("socket.send.buffer.bytes")]),
        kafka_has("131072", SYSTEM_BUFFER), about(SEND_BUFFER);
    "session.timeout.ms" Int = "45000", high, at_least(1),
        about("Time without a heartbeat after which the broker removes a member (classic protocol).");
    "share.acknowledgement.mode" String = "implicit", medium, allowed(ACKNOWLEDGEMENT_MODES), default_only(NO_SHARE),
        about("How a share consumer acknowledges records.");
    "share.acquire.mode" String = "BATCH_OPTIMIZED", medium, allowed(ACQUIRE_MODES),
        default_or(&["batch_optimized"], NO_SHARE),
        about("How a share consumer acquires records.");
    "value.deserializer" Class = "bytes", high, allowed(Custom(&DESERIALIZER)), kafka_requires(BYTES_BY_DEFAULT),
        about("Deserializer of values; as key.deserializer.");
};

/// librdkafka's names of the policies, some of which were Kafka's once.
const OLD_RESET_POLICIES: &[(&str, &str)] = &[
    ("beginning", "earliest"),
    ("end", "latest"),
    ("error", "none"),
    ("largest", "latest"),
    ("smallest", "earliest"),
];

const ACKNOWLEDGEMENT_MODES: Allowed = OneOf(&["implicit", "explicit"]);
const ACQUIRE_MODES: Allowed = OneOf(&["batch_optimized", "record_limit"]);

const BYTES_BY_DEFAULT: &str = "deserializers are usually types in Rust; without one, records are returned as bytes";
const INTERNAL: &str = "it is internal to Kafka Streams";
const NO_JMX: &str = "there is no JMX and Java classes cannot be loaded; metrics are read from the consumer";
const NO_METRICS_PUSH: &str = "metrics are not pushed to brokers; they are read from the consumer";
const NO_SHARE: &str = "share groups are not supported";
