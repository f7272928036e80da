//! Keys of the producer, without those of `common_table.rs` and `security_table.rs`. Types, defaults and ranges are Kafka's
//! unless a row says otherwise; `tests/it/producer_config_facts.rs` compares them.

use milena_config::{
    Alias,
    Allowed::{Between, BetweenOr, Custom, NotEmpty, OneOf},
    Definition, definitions, names_of,
};
use milena_wire::compression::Codec;

use super::{
    super::{
        common_table::{
            ALL_METRICS, BOOTSTRAP, IDLE, INTERCEPTORS_IN_CODE, IO, RECEIVE_BUFFER, RECORDING_LEVELS, SAMPLE_WINDOW,
            SAMPLES, SEND_BUFFER, SYSTEM_BUFFER,
        },
        types::{RecordsIo, SERVERS},
    },
    partitioner::{FIELD, FIELDS, REGIONS, SEPARATOR},
    types::{Acks, PARTITIONER},
};

/// Sorted by name.
pub(crate) const PRODUCER_CONFIGS: &[Definition] = definitions! {
    "acks" String = "all", allowed(OneOf(Acks::ACCEPTED)), alias(&[Alias::same("request.required.acks")]),
        about("Replicas that must have a record before it is acknowledged: all in-sync replicas (all, -1), the leader (1) \
               or none (0). 0 and 1 disable idempotence.");
    "batch.size" Int = "16384", medium, at_least(0),
        about("Size from which a batch is sent without waiting for linger.ms. While other batches of the partition are in \
               flight, batches grow beyond it, up to milena.batch.size.max. A larger record is sent alone; 0 sends every \
               record alone.");
    "bootstrap.servers" List, required, high, allowed(Custom(&SERVERS)), alias(&[Alias::same("metadata.broker.list")]),
        about(BOOTSTRAP);
    "buffer.memory" Long = "33554432", high, at_least(0), alias(&[Alias::kilobytes("queue.buffering.max.kbytes")]),
        about("Maximum size of records that are not acknowledged yet. If the buffer is full, send waits up to \
               max.block.ms.");
    "client.id" String = "", medium,
        about("Name of this client in logs, metrics and quotas of brokers. If empty: producer- and transactional.id or a \
               number.");
    "compression.gzip.level" Int = "-1", medium, allowed(BetweenOr(1, 9, -1)),
        about("Compression level of gzip; -1 for its default.");
    "compression.lz4.level" Int = "9", medium, allowed(Between(1, 17)),
        about("Compression level of lz4. All levels use the same fast compressor.");
    "compression.type" String = "none", high, allowed(OneOf(names_of!(Codec))),
        alias(&[Alias::same("compression.codec")]),
        about("Codec of batches.");
    "compression.zstd.level" Int = "3", medium, allowed(Between(-131_072, 22)),
        about("Compression level of zstd.");
    "connections.max.idle.ms" Long = "540000", medium, about(IDLE);
    "delivery.timeout.ms" Int = "120000", medium, at_least(0), alias(&[Alias::zero_is_forever("message.timeout.ms")]),
        about("Maximum time from send to the result of a delivery, retries included. At least linger.ms plus \
               request.timeout.ms; if unset, it grows to that sum.");
    "enable.idempotence" Boolean = "true",
        about("Whether retries cause neither duplicates nor reordering. Requires acks=all, retries, and at most 5 requests \
               in flight. If unset, acks or retries without these values disable it.");
    "enable.metrics.push" Boolean = "false", default_only(NO_METRICS_PUSH),
        kafka_has("true", "metrics are read from the producer; it does not push them to brokers"),
        about("Whether metrics are pushed to brokers that subscribe to them.");
    "interceptor.classes" List = "", default_only(INTERCEPTORS_IN_CODE),
        about("Java classes that intercept records and acknowledgements.");
    "key.serializer" Class = "bytes", high, default_or(BYTES, SERIALIZED_IN_CODE), kafka_requires(SENT_AS_GIVEN),
        about("Serializer of keys. Keys are bytes or text; bytes, string and Kafka's classes of these send them \
               unchanged. Others are refused.");
    "linger.ms" Long = "5", medium, at_least(0), alias(&[Alias::same("queue.buffering.max.ms")]),
        about("Time for which a batch that is not full waits for more records.");
    "max.block.ms" Long = "60000", medium, at_least(0),
        about("Maximum time for which send waits for buffer.memory or metadata, and timeout of transaction calls.");
    "max.in.flight.requests.per.connection" Int = "5", at_least(1), alias(&[Alias::same("max.in.flight")]),
        about("Maximum number of requests in flight to a broker. At most 5 with enable.idempotence.");
    "max.request.size" Int = "1048576", medium, at_least(0), alias(&[Alias::same("message.max.bytes")]),
        about("Maximum size of a request, and of an uncompressed record.");
    "metadata.max.idle.ms" Long = "300000", at_least(5000),
        about("Time without a record after which the metadata of a topic is dropped.");
    "metric.reporters" List = "org.apache.kafka.common.metrics.JmxReporter", default_or(&[""], NO_JMX),
        about("Java classes that report metrics.");
    "metrics.num.samples" Int = "2", at_least(1), about(SAMPLES);
    "metrics.recording.level" String = "INFO", allowed(RECORDING_LEVELS), default_only(ALL_METRICS),
        about("Level up to which metrics are recorded.");
    "metrics.sample.window.ms" Long = "30000", at_least(0), about(SAMPLE_WINDOW);
    "milena.batch.size.max" Int = "1048576", medium, at_least(0),
        about("Size up to which batches grow while others are in flight: a quarter of the buffered records, at most this \
               and max.request.size. With a value up to batch.size, batches do not grow. A lower limit of a topic is \
               learned from its errors.");
    "milena.io" String = "thread", medium, allowed(OneOf(RecordsIo::NAMES)), about(IO);
    "milena.partitioner.bucket.ms" Long = "3600000", at_least(1),
        about("With partitioner.class=time_bucket: length of the interval whose records share a partition.");
    "milena.partitioner.field" String, allowed(Custom(&FIELD)),
        about("With partitioner.class=entity or region: field that selects the partition. key; key[0], key[1] and so on \
               for the parts of the key between separators; or header:NAME. Required for entity; region uses \
               header:region by default.");
    "milena.partitioner.fields" List, allowed(Custom(&FIELDS)),
        about("With partitioner.class=composite, where it is required: fields that select the partition together, as in \
               header:country,key[0].");
    "milena.partitioner.hot.records.per.minute" Long = "10000", at_least(1),
        about("With partitioner.class=hot_keys: number of records per minute above which a key is spread over several \
               partitions, without order.");
    "milena.partitioner.regions" List, allowed(Custom(&REGIONS)),
        about("With partitioner.class=region, where it is required: partitions of each region, as in eu=0-3,us=4-11,us=20. \
               Records of other regions go to the remaining partitions.");
    "milena.partitioner.separator" String = ":", allowed(Custom(&SEPARATOR)),
        about("With partitioner.class=tenant or composite, and for key[0]: separator of the parts of a key.");
    "milena.partitioner.spread" Int, at_least(1),
        about("With partitioner.class=tenant, time_bucket or hot_keys: number of partitions over which a tenant, an \
               interval or a hot key is spread. If unset, 1, and 4 for hot keys.");
    "partitioner.adaptive.partitioning.enable" Boolean = "true",
        about("Whether partitions with more waiting batches get fewer of the records without a key.");
    "partitioner.availability.timeout.ms" Long = "0", at_least(0),
        about("Time without accepting a batch after which a broker gets no records without a key, with \
               partitioner.adaptive.partitioning.enable; 0 for never.");
    "partitioner.class" Class, medium, allowed(Custom(&PARTITIONER)), alias(&[Alias::same("partitioner")]),
        about("Partitioner of records that name no partition. If unset, Kafka's default partitioner. Kafka's \
               RoundRobinPartitioner is accepted as round_robin. Some have parameters: milena.partitioner.*. A partitioner \
               of your own is given in code.");
    "partitioner.ignore.keys" Boolean = "false", medium,
        about("Whether Kafka's default partitioner ignores keys.");
    "receive.buffer.bytes" Int = "-1", medium, at_least(-1),
        alias(&[Alias::zero_is_minus_one("socket.receive.buffer.bytes")]),
        kafka_has("32768", "a fixed window of 32 KiB slows down every connection that is not local"),
        about(RECEIVE_BUFFER);
    "retries" Int = "2147483647", high, allowed(Between(0, 2_147_483_647)),
        alias(&[Alias::same("message.send.max.retries")]),
        about("Maximum number of retries of a batch, within delivery.timeout.ms. 0 disables idempotence.");
    "send.buffer.bytes" Int = "-1", medium, at_least(-1),
        alias(&[Alias::zero_is_minus_one("socket.send.buffer.bytes")]),
        kafka_has("131072", SYSTEM_BUFFER), about(SEND_BUFFER);
    "transaction.timeout.ms" Int = "60000", at_least(1),
        about("Time after which the broker aborts an open transaction.");
    "transaction.two.phase.commit.enable" Boolean = "false", default_only(NO_TWO_PHASES),
        about("Whether transactions take part in a two-phase commit of another system.");
    "transactional.id" String, allowed(NotEmpty),
        about("Id of a transactional producer. The same in every run; a second producer with the same id fences the \
               first.");
    "value.serializer" Class = "bytes", high, default_or(BYTES, SERIALIZED_IN_CODE), kafka_requires(SENT_AS_GIVEN),
        about("Serializer of values; as key.serializer.");
};

/// Serializers that leave bytes and text unchanged.
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
const SERIALIZED_IN_CODE: &str = "records are sent as the bytes that they are given as; serialize them before sending, and \
     leave this out or name bytes, string, or Kafka's ByteArraySerializer, ByteBufferSerializer, BytesSerializer or \
     StringSerializer";
