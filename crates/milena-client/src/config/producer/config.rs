//! The typed configuration of the producer.

use std::sync::atomic::{AtomicU64, Ordering};

use milena_config::{ConfigErrors, ConfigMap, Note, Resolver, Setting};
use milena_wire::compression::{Codec, Compression};

use super::{
    super::{
        ClientKind, MetadataRecovery, RecordsIo, SecurityConfig, ServerAddress, checks::read_buffer,
        client_config::client_config,
    },
    Acks, PartitionerName, PartitionerParameters, ProducerConfigBuilder, checks,
};

/// The checked configuration of a producer. Every field has Kafka's name, type and default; `docs/producer-config.md` lists
/// the exceptions.
///
/// ```
/// use milena_client::config::{Acks, ConfigMap, ProducerConfig};
///
/// let config = ProducerConfig::builder("localhost:9092").set("linger.ms", 20).build()?;
/// assert_eq!((config.acks, config.linger_ms, config.enable_idempotence), (Acks::All, 20, true));
///
/// let map = ConfigMap::from([("bootstrap.servers", "localhost:9092"), ("linger", "20")]);
/// let errors = ProducerConfig::resolve(&map).unwrap_err();
/// assert_eq!(errors.to_string(), "linger (code) is not a key of the producer; did you mean linger.ms?");
/// # Ok::<(), milena_client::config::ConfigErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProducerConfig {
    /// `bootstrap.servers`: at least one.
    pub bootstrap_servers: Vec<ServerAddress>,
    /// `client.id`: never empty.
    pub client_id: String,

    /// `acks`
    pub acks: Acks,
    /// `enable.idempotence`: only with `acks=all`, retries, and at most 5 requests in flight.
    pub enable_idempotence: bool,
    /// `transactional.id`: never empty, and only with `enable.idempotence`.
    pub transactional_id: Option<String>,
    /// `transaction.timeout.ms`
    pub transaction_timeout_ms: i32,
    /// `retries`
    pub retries: u32,
    /// `delivery.timeout.ms`: not less than `linger.ms` and `request.timeout.ms` together.
    pub delivery_timeout_ms: i32,
    /// `max.in.flight.requests.per.connection`: at least 1.
    pub max_in_flight_requests_per_connection: usize,

    /// `batch.size`: 0 for one record in each batch.
    pub batch_size: usize,
    /// `milena.batch.size.max`: at most `max.request.size`.
    pub batch_size_max: usize,
    /// `linger.ms`
    pub linger_ms: i64,
    /// `buffer.memory`
    pub buffer_memory: usize,
    /// `max.block.ms`
    pub max_block_ms: i64,
    /// `max.request.size`
    pub max_request_size: usize,
    /// `compression.type`, with the level of that codec.
    pub compression: Compression,

    /// `partitioner.class`
    pub partitioner: PartitionerName,
    /// `milena.partitioner.*`: parameters that `partitioner.class` does not use are never set.
    pub partitioner_parameters: PartitionerParameters,
    /// `partitioner.ignore.keys`: only with the built-in partitioner.
    pub partitioner_ignore_keys: bool,
    /// `partitioner.adaptive.partitioning.enable`
    pub partitioner_adaptive_partitioning_enable: bool,
    /// `partitioner.availability.timeout.ms`: `None` for no limit.
    pub partitioner_availability_timeout_ms: Option<i64>,

    /// `request.timeout.ms`
    pub request_timeout_ms: i32,
    /// `retry.backoff.ms`
    pub retry_backoff_ms: i64,
    /// `retry.backoff.max.ms`: not less than `retry.backoff.ms`.
    pub retry_backoff_max_ms: i64,
    /// `reconnect.backoff.ms`
    pub reconnect_backoff_ms: i64,
    /// `reconnect.backoff.max.ms`: not less than `reconnect.backoff.ms`.
    pub reconnect_backoff_max_ms: i64,
    /// `socket.connection.setup.timeout.ms`
    pub socket_connection_setup_timeout_ms: i64,
    /// `socket.connection.setup.timeout.max.ms`: not less than `socket.connection.setup.timeout.ms`.
    pub socket_connection_setup_timeout_max_ms: i64,
    /// `connections.max.idle.ms`: `None` if idle connections stay open.
    pub connections_max_idle_ms: Option<i64>,
    /// `receive.buffer.bytes`: `None` lets the operating system adapt it.
    pub receive_buffer_bytes: Option<u32>,
    /// `send.buffer.bytes`: `None` lets the operating system adapt it.
    pub send_buffer_bytes: Option<u32>,

    /// `metadata.max.age.ms`
    pub metadata_max_age_ms: i64,
    /// `metadata.max.idle.ms`
    pub metadata_max_idle_ms: i64,
    /// `metadata.recovery.strategy`
    pub metadata_recovery: MetadataRecovery,
    /// `metadata.recovery.rebootstrap.trigger.ms`
    pub metadata_recovery_rebootstrap_trigger_ms: i64,
    /// `milena.io`
    pub io: RecordsIo,
    /// `metrics.num.samples`
    pub metrics_num_samples: u32,
    /// `metrics.sample.window.ms`
    pub metrics_sample_window_ms: i64,

    /// `security.protocol`, `ssl.*` and `sasl.*`.
    pub security: SecurityConfig,

    /// Facts about a valid configuration that its author should know, such as old names.
    pub notes: Vec<Note>,
    settings: Vec<Setting>,
}

impl ProducerConfig {
    fn read(resolver: &Resolver) -> Self {
        Self {
            bootstrap_servers: resolver.read("bootstrap.servers"),
            client_id: resolver.text("client.id").unwrap_or_default(),

            acks: resolver.read("acks"),
            enable_idempotence: resolver.read("enable.idempotence"),
            transactional_id: resolver.text("transactional.id"),
            transaction_timeout_ms: resolver.read("transaction.timeout.ms"),
            retries: resolver.read("retries"),
            delivery_timeout_ms: resolver.read("delivery.timeout.ms"),
            max_in_flight_requests_per_connection: resolver.read("max.in.flight.requests.per.connection"),

            batch_size: resolver.read("batch.size"),
            batch_size_max: resolver
                .read::<usize>("milena.batch.size.max")
                .min(resolver.read("max.request.size")),
            // Kafka limits it to 32 bits too.
            linger_ms: resolver.read::<i64>("linger.ms").min(i64::from(i32::MAX)),
            buffer_memory: resolver.read("buffer.memory"),
            max_block_ms: resolver.read("max.block.ms"),
            max_request_size: resolver.read("max.request.size"),
            compression: read_compression(resolver),

            partitioner: resolver.read("partitioner.class"),
            partitioner_parameters: PartitionerParameters::read(resolver),
            partitioner_ignore_keys: resolver.read("partitioner.ignore.keys"),
            partitioner_adaptive_partitioning_enable: resolver.read("partitioner.adaptive.partitioning.enable"),
            partitioner_availability_timeout_ms: Some(resolver.read("partitioner.availability.timeout.ms"))
                .filter(|ms| *ms > 0),

            request_timeout_ms: resolver.read("request.timeout.ms"),
            retry_backoff_ms: resolver.read("retry.backoff.ms"),
            retry_backoff_max_ms: resolver.read("retry.backoff.max.ms"),
            reconnect_backoff_ms: resolver.read("reconnect.backoff.ms"),
            reconnect_backoff_max_ms: resolver.read("reconnect.backoff.max.ms"),
            socket_connection_setup_timeout_ms: resolver.read("socket.connection.setup.timeout.ms"),
            socket_connection_setup_timeout_max_ms: resolver.read("socket.connection.setup.timeout.max.ms"),
            connections_max_idle_ms: Some(resolver.read("connections.max.idle.ms")).filter(|ms| *ms >= 0),
            receive_buffer_bytes: read_buffer(resolver, "receive.buffer.bytes"),
            send_buffer_bytes: read_buffer(resolver, "send.buffer.bytes"),

            metadata_max_age_ms: resolver.read("metadata.max.age.ms"),
            metadata_max_idle_ms: resolver.read("metadata.max.idle.ms"),
            metadata_recovery: resolver.read("metadata.recovery.strategy"),
            metadata_recovery_rebootstrap_trigger_ms: resolver.read("metadata.recovery.rebootstrap.trigger.ms"),
            io: resolver.read("milena.io"),
            metrics_num_samples: resolver.read("metrics.num.samples"),
            metrics_sample_window_ms: resolver.read("metrics.sample.window.ms"),

            security: SecurityConfig::default(),
            notes: Vec::new(),
            settings: Vec::new(),
        }
    }
}

client_config!(ProducerConfig, ProducerConfigBuilder, Producer, checks::check);

impl ProducerConfig {
    /// A `client.id` that no other producer of this process has.
    fn default_client_id(&self) -> String {
        static LAST: AtomicU64 = AtomicU64::new(0);
        match &self.transactional_id {
            Some(transactional_id) => format!("producer-{transactional_id}"),
            None => format!("producer-{}", LAST.fetch_add(1, Ordering::Relaxed) + 1),
        }
    }
}

/// The codec with its level, whose range the table has checked.
fn read_compression(resolver: &Resolver) -> Compression {
    let codec: Codec = resolver
        .text("compression.type")
        .and_then(|name| name.parse().ok())
        .unwrap_or_default();
    let level = match codec {
        Codec::None | Codec::Snappy => None,
        Codec::Gzip => resolver.read_optional("compression.gzip.level"),
        Codec::Lz4 => resolver.read_optional("compression.lz4.level"),
        Codec::Zstd => resolver.read_optional("compression.zstd.level"),
    };
    level
        .and_then(|level| Compression::with_level(codec, level).ok())
        .unwrap_or_else(|| codec.into())
}
