//! The typed configuration of the consumer.

use std::sync::atomic::{AtomicU64, Ordering};

use milena_config::{ConfigErrors, ConfigMap, Note, Resolver, Setting};

use super::{
    super::{
        ClientKind, MetadataRecovery, RecordsIo, SecurityConfig, ServerAddress, checks::read_buffer,
        client_config::client_config,
    },
    AutoOffsetReset, ConsumerConfigBuilder, DeserializerName, GroupProtocol, IsolationLevel, Profile, checks,
    types::GroupProtocolName,
};

/// The checked configuration of a consumer. Every field has Kafka's name, type and default; `docs/consumer-config.md` lists
/// the exceptions.
///
/// ```
/// use milena_client::config::{ConfigMap, ConsumerConfig};
///
/// let config = ConsumerConfig::builder("localhost:9092").group_id("orders").set("max.poll.records", 100).build()?;
/// assert_eq!(config.max_poll_records, 100);
///
/// let map = ConfigMap::from([("bootstrap.servers", "localhost:9092"), ("max.poll.recods", "100")]);
/// let errors = ConsumerConfig::resolve(&map).unwrap_err();
/// assert_eq!(
///     errors.to_string(),
///     "max.poll.recods (code) is not a key of the consumer; did you mean max.poll.records?"
/// );
/// # Ok::<(), milena_client::config::ConfigErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConsumerConfig {
    /// `bootstrap.servers`: at least one.
    pub bootstrap_servers: Vec<ServerAddress>,
    /// `client.id`: never empty.
    pub client_id: String,
    /// `client.rack`
    pub client_rack: Option<String>,

    /// `group.id`: never empty.
    pub group_id: Option<String>,
    /// `group.instance.id`: the id of a static member.
    pub group_instance_id: Option<String>,
    /// `group.protocol`, with the keys that only one of the protocols has.
    pub group_protocol: GroupProtocol,
    /// `max.poll.interval.ms`: also the time for which a rebalance waits for this member.
    pub max_poll_interval_ms: i32,
    /// `max.poll.records`
    pub max_poll_records: usize,
    /// `enable.auto.commit`: never without a group.
    pub enable_auto_commit: bool,
    /// `auto.commit.interval.ms`
    pub auto_commit_interval_ms: i32,
    /// `auto.offset.reset`
    pub auto_offset_reset: AutoOffsetReset,
    /// `isolation.level`
    pub isolation_level: IsolationLevel,
    /// `exclude.internal.topics`
    pub exclude_internal_topics: bool,
    /// `allow.auto.create.topics`
    pub allow_auto_create_topics: bool,
    /// `key.deserializer`: for [`decode`](crate::consumer::RebalanceConsumer::decode).
    pub key_deserializer: DeserializerName,
    /// `value.deserializer`
    pub value_deserializer: DeserializerName,

    /// `fetch.min.bytes`
    pub fetch_min_bytes: i32,
    /// `fetch.max.bytes`
    pub fetch_max_bytes: i32,
    /// `fetch.max.wait.ms`: less than `request.timeout.ms`.
    pub fetch_max_wait_ms: i32,
    /// `max.partition.fetch.bytes`
    pub max_partition_fetch_bytes: i32,
    /// `check.crcs`
    pub check_crcs: bool,
    /// `milena.fetch.buffer.bytes`: the limit of fetched records that were not polled, decompressed records included.
    pub fetch_buffer_bytes: usize,
    /// `milena.io`
    pub io: RecordsIo,
    /// `milena.profile`: its defaults are in the other fields already.
    pub profile: Option<Profile>,

    /// `default.api.timeout.ms`
    pub default_api_timeout_ms: i32,
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
    /// `metadata.recovery.strategy`
    pub metadata_recovery: MetadataRecovery,
    /// `metadata.recovery.rebootstrap.trigger.ms`
    pub metadata_recovery_rebootstrap_trigger_ms: i64,
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

impl ConsumerConfig {
    fn read(resolver: &Resolver) -> Self {
        Self {
            bootstrap_servers: resolver.read("bootstrap.servers"),
            client_id: resolver.text("client.id").unwrap_or_default(),
            client_rack: resolver.text("client.rack"),

            group_id: resolver.text("group.id"),
            group_instance_id: resolver.text("group.instance.id"),
            group_protocol: read_protocol(resolver),
            max_poll_interval_ms: resolver.read("max.poll.interval.ms"),
            max_poll_records: resolver.read("max.poll.records"),
            enable_auto_commit: resolver.read("enable.auto.commit"),
            auto_commit_interval_ms: resolver.read("auto.commit.interval.ms"),
            auto_offset_reset: resolver.read("auto.offset.reset"),
            isolation_level: resolver.read("isolation.level"),
            exclude_internal_topics: resolver.read("exclude.internal.topics"),
            allow_auto_create_topics: resolver.read("allow.auto.create.topics"),
            key_deserializer: resolver.read("key.deserializer"),
            value_deserializer: resolver.read("value.deserializer"),

            fetch_min_bytes: resolver.read("fetch.min.bytes"),
            fetch_max_bytes: resolver.read("fetch.max.bytes"),
            fetch_max_wait_ms: resolver.read("fetch.max.wait.ms"),
            max_partition_fetch_bytes: resolver.read("max.partition.fetch.bytes"),
            check_crcs: resolver.read("check.crcs"),
            fetch_buffer_bytes: resolver.read("milena.fetch.buffer.bytes"),
            io: resolver.read("milena.io"),
            profile: resolver.read_optional("milena.profile"),

            default_api_timeout_ms: resolver.read("default.api.timeout.ms"),
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
            metadata_recovery: resolver.read("metadata.recovery.strategy"),
            metadata_recovery_rebootstrap_trigger_ms: resolver.read("metadata.recovery.rebootstrap.trigger.ms"),
            metrics_num_samples: resolver.read("metrics.num.samples"),
            metrics_sample_window_ms: resolver.read("metrics.sample.window.ms"),

            security: SecurityConfig::default(),
            notes: Vec::new(),
            settings: Vec::new(),
        }
    }
}

client_config!(ConsumerConfig, ConsumerConfigBuilder, Consumer, checks::check);

impl ConsumerConfig {
    /// A `client.id` that no other consumer of this process has.
    fn default_client_id(&self) -> String {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let own = match &self.group_instance_id {
            Some(instance) => instance.clone(),
            None => (LAST.fetch_add(1, Ordering::Relaxed) + 1).to_string(),
        };
        match &self.group_id {
            Some(group) => format!("consumer-{group}-{own}"),
            None => format!("consumer-{own}"),
        }
    }
}

fn read_protocol(resolver: &Resolver) -> GroupProtocol {
    match resolver.read("group.protocol") {
        GroupProtocolName::Consumer => GroupProtocol::Consumer {
            remote_assignor: resolver.text("group.remote.assignor"),
        },
        GroupProtocolName::Classic => GroupProtocol::Classic {
            session_timeout_ms: resolver.read("session.timeout.ms"),
            heartbeat_interval_ms: resolver.read("heartbeat.interval.ms"),
            assignors: resolver.read("partition.assignment.strategy"),
        },
    }
}
