//! What a producer is built from.

use std::sync::atomic::{AtomicU64, Ordering};

use milena_wire::compression::{Codec, Compression};

use super::{
    Acks, ClientKind, ConfigErrors, ConfigMap, MetadataRecovery, Note, PartitionerName, PartitionerParameters,
    ProducerConfigBuilder, RecordsIo, ServerAddress, Setting, consumer::read_buffer, producer_checks,
    resolve::Resolver,
};

/// The configuration of a producer, checked: every field has Kafka's name, type and default, but for what
/// `docs/producer-config.md` tells.
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

    /// `batch.size`: 0 sends every record alone.
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
    /// `milena.partitioner.*`: what `partitioner.class` does not use is never set.
    pub partitioner_parameters: PartitionerParameters,
    /// `partitioner.ignore.keys`: only with the built-in partitioner.
    pub partitioner_ignore_keys: bool,
    /// `partitioner.adaptive.partitioning.enable`
    pub partitioner_adaptive_partitioning_enable: bool,
    /// `partitioner.availability.timeout.ms`: `None` if brokers may take their time.
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
    /// `connections.max.idle.ms`: `None` if a connection is never closed for that.
    pub connections_max_idle_ms: Option<i64>,
    /// `receive.buffer.bytes`: `None` lets the system adapt it.
    pub receive_buffer_bytes: Option<u32>,
    /// `send.buffer.bytes`: `None` lets the system adapt it.
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

    /// What is not wrong, but should be known: old names, for example.
    pub notes: Vec<Note>,
    settings: Vec<Setting>,
}

impl ProducerConfig {
    /// Begins a configuration in code.
    pub fn builder(bootstrap_servers: impl Into<String>) -> ProducerConfigBuilder {
        ProducerConfigBuilder::new(bootstrap_servers)
    }

    /// Checks raw settings, and gives them types. All that is wrong is reported at once.
    pub fn resolve(map: &ConfigMap) -> Result<Self, ConfigErrors> {
        let mut settings = Resolver::new(ClientKind::Producer, map);
        producer_checks::check(&mut settings);
        let mut config = Self::read(&settings);
        (config.notes, config.settings) = settings.finish()?;
        // Only now, so that a configuration that is refused uses up no number.
        config.client_id = named_client(&config);
        let client_id = config.settings.iter_mut().find(|setting| setting.key == "client.id");
        if let Some(client_id) = client_id {
            client_id.value.clone_from(&config.client_id);
        }
        Ok(config)
    }

    /// Every key that does something, with its value and who decided on it, by name.
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }

    fn read(settings: &Resolver) -> Self {
        Self {
            bootstrap_servers: settings.read("bootstrap.servers"),
            client_id: settings.text("client.id").unwrap_or_default(),

            acks: settings.read("acks"),
            enable_idempotence: settings.read("enable.idempotence"),
            transactional_id: settings.text("transactional.id"),
            transaction_timeout_ms: settings.read("transaction.timeout.ms"),
            retries: settings.read("retries"),
            delivery_timeout_ms: settings.read("delivery.timeout.ms"),
            max_in_flight_requests_per_connection: settings.read("max.in.flight.requests.per.connection"),

            batch_size: settings.read("batch.size"),
            batch_size_max: settings
                .read::<usize>("milena.batch.size.max")
                .min(settings.read("max.request.size")),
            // As in Kafka, where it is cut to what fits.
            linger_ms: settings.read::<i64>("linger.ms").min(i64::from(i32::MAX)),
            buffer_memory: settings.read("buffer.memory"),
            max_block_ms: settings.read("max.block.ms"),
            max_request_size: settings.read("max.request.size"),
            compression: read_compression(settings),

            partitioner: settings.read("partitioner.class"),
            partitioner_parameters: PartitionerParameters::read(settings),
            partitioner_ignore_keys: settings.read("partitioner.ignore.keys"),
            partitioner_adaptive_partitioning_enable: settings.read("partitioner.adaptive.partitioning.enable"),
            partitioner_availability_timeout_ms: Some(settings.read("partitioner.availability.timeout.ms"))
                .filter(|ms| *ms > 0),

            request_timeout_ms: settings.read("request.timeout.ms"),
            retry_backoff_ms: settings.read("retry.backoff.ms"),
            retry_backoff_max_ms: settings.read("retry.backoff.max.ms"),
            reconnect_backoff_ms: settings.read("reconnect.backoff.ms"),
            reconnect_backoff_max_ms: settings.read("reconnect.backoff.max.ms"),
            socket_connection_setup_timeout_ms: settings.read("socket.connection.setup.timeout.ms"),
            socket_connection_setup_timeout_max_ms: settings.read("socket.connection.setup.timeout.max.ms"),
            connections_max_idle_ms: Some(settings.read("connections.max.idle.ms")).filter(|ms| *ms >= 0),
            receive_buffer_bytes: read_buffer(settings, "receive.buffer.bytes"),
            send_buffer_bytes: read_buffer(settings, "send.buffer.bytes"),

            metadata_max_age_ms: settings.read("metadata.max.age.ms"),
            metadata_max_idle_ms: settings.read("metadata.max.idle.ms"),
            metadata_recovery: settings.read("metadata.recovery.strategy"),
            metadata_recovery_rebootstrap_trigger_ms: settings.read("metadata.recovery.rebootstrap.trigger.ms"),
            io: settings.read("milena.io"),
            metrics_num_samples: settings.read("metrics.num.samples"),
            metrics_sample_window_ms: settings.read("metrics.sample.window.ms"),

            notes: Vec::new(),
            settings: Vec::new(),
        }
    }
}

/// The levels were checked already, with the ranges that the codecs have.
fn read_compression(settings: &Resolver) -> Compression {
    let codec: Codec = settings
        .text("compression.type")
        .and_then(|name| name.parse().ok())
        .unwrap_or_default();
    let level = match codec {
        Codec::None | Codec::Snappy => None,
        Codec::Gzip => settings.read_optional("compression.gzip.level"),
        Codec::Lz4 => settings.read_optional("compression.lz4.level"),
        Codec::Zstd => settings.read_optional("compression.zstd.level"),
    };
    level
        .and_then(|level| Compression::with_level(codec, level).ok())
        .unwrap_or_else(|| codec.into())
}

/// The name that the application chose, or one that no other producer of this process has.
fn named_client(config: &ProducerConfig) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if !config.client_id.is_empty() {
        return config.client_id.clone();
    }
    match &config.transactional_id {
        Some(transactional_id) => format!("producer-{transactional_id}"),
        None => format!("producer-{}", LAST.fetch_add(1, Ordering::Relaxed) + 1),
    }
}

impl TryFrom<&ConfigMap> for ProducerConfig {
    type Error = ConfigErrors;

    fn try_from(map: &ConfigMap) -> Result<Self, ConfigErrors> {
        Self::resolve(map)
    }
}

impl TryFrom<ConfigMap> for ProducerConfig {
    type Error = ConfigErrors;

    fn try_from(map: ConfigMap) -> Result<Self, ConfigErrors> {
        Self::resolve(&map)
    }
}
