//! The producer's keys, by name, but for those of TLS and SASL. Types, defaults and ranges are Kafka's where a row does not
//! say otherwise; `tests/it/producer_config_facts.rs` compares.

use super::{
    Allowed::{
        Addresses, Between, BetweenOr, NotEmpty, OneOf, Partitioner, PartitionerField, PartitionerFields, Regions,
        Separator,
    },
    ConfigType, Definition,
    consumer_table::{
        DNS_LOOKUPS, INTERCEPTORS_IN_CODE, NO_CLASSES, NO_REVERSE_LOOKUP, NO_SECURITY, ONE_LEVEL, RECORDING_LEVELS,
        RECORDS_IO, RECOVERY_STRATEGIES, SECURITY_PROTOCOLS,
    },
    definition::{definitions, kilobytes, same, zero_is_forever, zero_is_minus_one},
};

/// Sorted by name.
pub(super) const PRODUCER_CONFIGS: &[Definition] = definitions! {
    "acks" String = "all", allowed(OneOf(&["all", "-1", "0", "1"])), alias(&[same("request.required.acks")]),
        about("Who must have a record before it counts as written: all replicas in sync (all, -1), the leader (1), nobody \
               (0). All but the first turn enable.idempotence off.");
    "batch.size" Int = "16384", medium, at_least(0),
        about("The size from which a batch of records for one partition is sent without waiting for linger.ms. While \
               others wait for their acknowledgement, batches grow beyond it, up to milena.batch.size.max. A larger \
               record goes alone; with 0 every record does.");
    "bootstrap.servers" List, required, high, allowed(Addresses), alias(&[same("metadata.broker.list")]),
        about("Brokers to ask for the cluster first, as host:port. One that can be reached is enough.");
    "buffer.memory" Long = "33554432", high, at_least(0), alias(&[kilobytes("queue.buffering.max.kbytes")]),
        about("How many bytes of records may wait to be sent or acknowledged. Sending waits for room, up to max.block.ms.");
    "client.dns.lookup" String = "use_all_dns_ips", medium, allowed(DNS_LOOKUPS), default_only(NO_REVERSE_LOOKUP),
        about("How names of brokers become addresses: all addresses of a name are tried.");
    "client.id" String = "", medium,
        about("What brokers call this client in logs, metrics and quotas; if empty, producer- and transactional.id or a \
               number.");
    "compression.gzip.level" Int = "-1", medium, allowed(BetweenOr(1, 9, -1)),
        about("How hard gzip works; -1 is its own default.");
    "compression.lz4.level" Int = "9", medium, allowed(Between(1, 17)),
        about("How hard lz4 works. There is one fast compressor here, which all levels mean.");
    "compression.type" String = "none", high, allowed(OneOf(&["none", "gzip", "snappy", "lz4", "zstd"])),
        alias(&[same("compression.codec")]),
        about("How batches are compressed.");
    "compression.zstd.level" Int = "3", medium, allowed(Between(-131_072, 22)),
        about("How hard zstd works.");
    "config.providers" List = "", default_only(NO_CLASSES),
        about("Java classes that look up values.");
    "connections.max.idle.ms" Long = "540000", medium,
        about("After how long without use a connection is closed; never, if negative.");
    "delivery.timeout.ms" Int = "120000", medium, at_least(0), alias(&[zero_is_forever("message.timeout.ms")]),
        about("How long it may take from sending a record to its outcome, retries included. At least linger.ms and \
               request.timeout.ms together; it grows to that if it is not set.");
    "enable.idempotence" Boolean = "true",
        about("Whether retries neither repeat records nor change their order. It needs acks=all, retries, and at most 5 \
               requests in flight, and is off where acks or retries say so and it is not set.");
    "enable.metrics.push" Boolean = "false", default_only(NO_METRICS_PUSH),
        kafka_has("true", "metrics are read from the producer; it does not push them to brokers"),
        about("Whether metrics are sent to brokers that ask for them.");
    "interceptor.classes" List = "", default_only(INTERCEPTORS_IN_CODE),
        about("Java classes that see records and acknowledgements.");
    "key.serializer" Class = "bytes", high, default_or(BYTES, SERIALIZED_IN_CODE), kafka_demands_one(SENT_AS_GIVEN),
        about("How keys become bytes: they are given as bytes or text, which bytes, string and Kafka's classes of these \
               leave as they are. Others are refused.");
    "linger.ms" Long = "5", medium, at_least(0), alias(&[same("queue.buffering.max.ms")]),
        about("How long a batch that is not full waits for more records.");
    "max.block.ms" Long = "60000", medium, at_least(0),
        about("How long sending may wait for room in buffer.memory or for metadata, and how long a call for a transaction \
               may take.");
    "max.in.flight.requests.per.connection" Int = "5", at_least(1), alias(&[same("max.in.flight")]),
        about("How many requests may wait for an answer of one broker; at most 5 with enable.idempotence.");
    "max.request.size" Int = "1048576", medium, at_least(0), alias(&[same("message.max.bytes")]),
        about("The largest request, and the largest record before compression.");
    "metadata.max.age.ms" Long = "300000", at_least(0), alias(&[same("topic.metadata.refresh.interval.ms")]),
        about("After how long topics and brokers are looked up again, even if nothing seems to have changed.");
    "metadata.max.idle.ms" Long = "300000", at_least(5000),
        about("After how long without a record a topic is forgotten.");
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
    "milena.batch.size.max" Int = "1048576", medium, at_least(0),
        about("The size up to which batches grow while others wait for their acknowledgement: a quarter of what waits, at \
               most this and max.request.size. No batch grows beyond batch.size if this is not larger. A topic that \
               takes less is learned from its refusals.");
    "milena.io" String = "thread", medium, allowed(RECORDS_IO),
        about("Where the connections live that carry records. thread: on a thread of their own, which goes on whatever \
               the application does. runtime: on the tokio runtime on which the client was made, which must stay; \
               single records come and go sooner and cost less, but wait while that runtime is kept busy. Heartbeats \
               stay on the thread.");
    "milena.partitioner.bucket.ms" Long = "3600000", at_least(1),
        about("With partitioner.class=time_bucket: how long a stretch of time is whose records share a partition.");
    "milena.partitioner.field" String, allowed(PartitionerField),
        about("With partitioner.class=entity or region: the part of a record that decides. key; key[0], key[1] and so on \
               for a part of the key between separators; or header:NAME. entity needs it; region looks at header:region \
               without it.");
    "milena.partitioner.fields" List, allowed(PartitionerFields),
        about("With partitioner.class=composite, which needs it: the parts of a record that decide together, as in \
               header:country,key[0].");
    "milena.partitioner.hot.records.per.minute" Long = "10000", at_least(1),
        about("With partitioner.class=hot_keys: a key with more records than this in a minute is spread over several \
               partitions, without order.");
    "milena.partitioner.regions" List, allowed(Regions),
        about("With partitioner.class=region, which needs it: the partitions of each region, as in eu=0-3,us=4-11,us=20. \
               Records of other regions go to partitions that no region has.");
    "milena.partitioner.separator" String = ":", allowed(Separator),
        about("With partitioner.class=tenant or composite, and for key[0]: the character between the parts of a key.");
    "milena.partitioner.spread" Int, at_least(1),
        about("With partitioner.class=tenant, time_bucket or hot_keys: over how many partitions a tenant, a stretch of \
               time or a hot key is spread. Without it 1, and 4 for hot keys.");
    "partitioner.adaptive.partitioning.enable" Boolean = "true",
        about("Whether records without a key go less often where more batches wait.");
    "partitioner.availability.timeout.ms" Long = "0", at_least(0),
        about("After how long without taking a batch a broker gets no more records without a key, with \
               partitioner.adaptive.partitioning.enable; never, if 0.");
    "partitioner.class" Class, medium, allowed(Partitioner), alias(&[same("partitioner")]),
        about("Who chooses the partition of a record that names none; without it, Kafka's own. librdkafka's consistent, \
               consistent_random, fnv1a, fnv1a_random, murmur2, murmur2_random and random, round_robin, or Kafka's \
               RoundRobinPartitioner; or entity, tenant, region, composite, time_bucket or hot_keys, whose parameters are \
               the keys milena.partitioner.*. Others are given in code.");
    "partitioner.ignore.keys" Boolean = "false", medium,
        about("Whether Kafka's own partitioner treats all records as if they had no key.");
    "receive.buffer.bytes" Int = "-1", medium, at_least(-1), alias(&[zero_is_minus_one("socket.receive.buffer.bytes")]),
        kafka_has("32768", "a fixed window of 32 KB slows down every connection that is not local"),
        about("The size of a socket's receive buffer; -1, the default, lets the system adapt it.");
    "reconnect.backoff.max.ms" Long = "1000", at_least(0),
        about("The longest pause between two attempts to connect. Without it, reconnect.backoff.ms is the only pause.");
    "reconnect.backoff.ms" Long = "50", at_least(0),
        about("The pause after the first failed attempt to connect; it doubles with each.");
    "request.timeout.ms" Int = "30000", medium, at_least(0), alias(&[same("socket.timeout.ms")]),
        about("How long a request may wait for its answer before its connection is given up.");
    "retries" Int = "2147483647", high, allowed(Between(0, 2_147_483_647)), alias(&[same("message.send.max.retries")]),
        about("How often a batch is sent again; delivery.timeout.ms ends it too. 0 turns enable.idempotence off.");
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
    "socket.connection.setup.timeout.max.ms" Long = "30000", medium, at_least(0),
        about("The longest time to wait for a connection, after several attempts.");
    "socket.connection.setup.timeout.ms" Long = "10000", medium, at_least(0),
        about("How long to wait for a connection; it doubles with each attempt.");
    "transaction.timeout.ms" Int = "60000", at_least(1),
        about("After how long the broker aborts a transaction that has not ended.");
    "transaction.two.phase.commit.enable" Boolean = "false", default_only(NO_TWO_PHASES),
        about("Whether a transaction takes part in one of another system.");
    "transactional.id" String, allowed(NotEmpty),
        about("The name of a producer that has transactions: the same in every run, and of no other producer at the same \
               time.");
    "value.serializer" Class = "bytes", high, default_or(BYTES, SERIALIZED_IN_CODE), kafka_demands_one(SENT_AS_GIVEN),
        about("How values become bytes; as for key.serializer.");
};

/// Serializers that leave bytes and text as they are.
const BYTES: &[&str] = &[
    "string",
    "org.apache.kafka.common.serialization.ByteArraySerializer",
    "org.apache.kafka.common.serialization.ByteBufferSerializer",
    "org.apache.kafka.common.serialization.BytesSerializer",
    "org.apache.kafka.common.serialization.StringSerializer",
];

const NO_JMX: &str = "there is no JMX and Java classes cannot be loaded; metrics are read from the producer";
const NO_METRICS_PUSH: &str = "metrics are not pushed to brokers; they are read from the producer";
const NO_TWO_PHASES: &str = "two-phase commit with other systems is not supported";
const SENT_AS_GIVEN: &str = "records are sent as the bytes or the text that they are given as";
const SERIALIZED_IN_CODE: &str = "records are sent as the bytes that they are given as; make bytes of them before they are sent, and leave this out or \
     name bytes, string, or Kafka's ByteArraySerializer, ByteBufferSerializer, BytesSerializer or StringSerializer";
