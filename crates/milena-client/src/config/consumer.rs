//! What a consumer is built from.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{
    AutoOffsetReset, ClientKind, ConfigErrors, ConfigMap, ConsumerConfigBuilder, DeserializerName, GroupProtocol,
    IsolationLevel, MetadataRecovery, Note, Profile, RecordsIo, ServerAddress, Setting, checks, resolve::Resolver,
};

/// The configuration of a consumer, checked: every field has Kafka's name, type and default, but for what
/// `docs/consumer-config.md` tells.
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
    /// `group.instance.id`: the name of a static member.
    pub group_instance_id: Option<String>,
    /// `group.protocol`, and the keys that only one of the protocols has.
    pub group_protocol: GroupProtocol,
    /// `max.poll.interval.ms`: also how long a rebalance waits for this member.
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
    /// `milena.fetch.buffer.bytes`: all that is fetched and not yet handed out, decompressed bytes included.
    pub fetch_buffer_bytes: usize,
    /// `milena.io`
    pub io: RecordsIo,
    /// `milena.profile`: the fields above have what it says already.
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
    /// `connections.max.idle.ms`: `None` if a connection is never closed for that.
    pub connections_max_idle_ms: Option<i64>,
    /// `receive.buffer.bytes`: `None` lets the system adapt it.
    pub receive_buffer_bytes: Option<u32>,
    /// `send.buffer.bytes`: `None` lets the system adapt it.
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

    /// What is not wrong, but should be known: old names, for example.
    pub notes: Vec<Note>,
    settings: Vec<Setting>,
}

impl ConsumerConfig {
    /// Begins a configuration in code.
    pub fn builder(bootstrap_servers: impl Into<String>) -> ConsumerConfigBuilder {
        ConsumerConfigBuilder::new(bootstrap_servers)
    }

    /// Checks raw settings, and gives them types. All that is wrong is reported at once.
    pub fn resolve(map: &ConfigMap) -> Result<Self, ConfigErrors> {
        let mut settings = Resolver::new(ClientKind::Consumer, map);
        checks::check(&mut settings);
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
            client_rack: settings.text("client.rack"),

            group_id: settings.text("group.id"),
            group_instance_id: settings.text("group.instance.id"),
            group_protocol: read_protocol(settings),
            max_poll_interval_ms: settings.read("max.poll.interval.ms"),
            max_poll_records: settings.read("max.poll.records"),
            enable_auto_commit: settings.read("enable.auto.commit"),
            auto_commit_interval_ms: settings.read("auto.commit.interval.ms"),
            auto_offset_reset: settings.read("auto.offset.reset"),
            isolation_level: settings.read("isolation.level"),
            exclude_internal_topics: settings.read("exclude.internal.topics"),
            allow_auto_create_topics: settings.read("allow.auto.create.topics"),
            key_deserializer: settings.read("key.deserializer"),
            value_deserializer: settings.read("value.deserializer"),

            fetch_min_bytes: settings.read("fetch.min.bytes"),
            fetch_max_bytes: settings.read("fetch.max.bytes"),
            fetch_max_wait_ms: settings.read("fetch.max.wait.ms"),
            max_partition_fetch_bytes: settings.read("max.partition.fetch.bytes"),
            check_crcs: settings.read("check.crcs"),
            fetch_buffer_bytes: settings.read("milena.fetch.buffer.bytes"),
            io: settings.read("milena.io"),
            profile: settings.read_optional("milena.profile"),

            default_api_timeout_ms: settings.read("default.api.timeout.ms"),
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
            metadata_recovery: settings.read("metadata.recovery.strategy"),
            metadata_recovery_rebootstrap_trigger_ms: settings.read("metadata.recovery.rebootstrap.trigger.ms"),
            metrics_num_samples: settings.read("metrics.num.samples"),
            metrics_sample_window_ms: settings.read("metrics.sample.window.ms"),

            notes: Vec::new(),
            settings: Vec::new(),
        }
    }
}

fn read_protocol(settings: &Resolver) -> GroupProtocol {
    if settings.is_consumer_protocol() {
        let remote_assignor = settings.text("group.remote.assignor");
        return GroupProtocol::Consumer { remote_assignor };
    }
    GroupProtocol::Classic {
        session_timeout_ms: settings.read("session.timeout.ms"),
        heartbeat_interval_ms: settings.read("heartbeat.interval.ms"),
        assignors: settings.read("partition.assignment.strategy"),
    }
}

/// Java takes a size of zero and fails when it connects; librdkafka lets the system choose.
pub(super) fn read_buffer(settings: &Resolver, name: &str) -> Option<u32> {
    let bytes: i32 = settings.read(name);
    u32::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}

/// The name that the application chose, or one that no other consumer of this process has.
fn named_client(config: &ConsumerConfig) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if !config.client_id.is_empty() {
        return config.client_id.clone();
    }
    let own = match &config.group_instance_id {
        Some(instance) => instance.clone(),
        None => (LAST.fetch_add(1, Ordering::Relaxed) + 1).to_string(),
    };
    match &config.group_id {
        Some(group) => format!("consumer-{group}-{own}"),
        None => format!("consumer-{own}"),
    }
}

impl TryFrom<&ConfigMap> for ConsumerConfig {
    type Error = ConfigErrors;

    fn try_from(map: &ConfigMap) -> Result<Self, ConfigErrors> {
        Self::resolve(map)
    }
}

impl TryFrom<ConfigMap> for ConsumerConfig {
    type Error = ConfigErrors;

    fn try_from(map: ConfigMap) -> Result<Self, ConfigErrors> {
        Self::resolve(&map)
    }
}
