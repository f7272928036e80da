//! What an admin client is built from.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    ClientKind, ConfigErrors, ConfigMap, MetadataRecovery, Note, ServerAddress, Setting, checks, consumer::read_buffer,
    resolve::Resolver,
};

/// The configuration of an admin client, checked: every field has Kafka's name, type and default, but for what
/// `docs/admin-config.md` tells.
///
/// ```
/// use milena_client::config::AdminConfig;
///
/// let config = AdminConfig::builder("localhost:9092").set("default.api.timeout.ms", 5000).build()?;
/// assert_eq!(config.default_api_timeout_ms, 5000);
///
/// let errors = AdminConfig::builder("localhost:9092").set("retry.backof.ms", 3).build().unwrap_err();
/// assert_eq!(
///     errors.to_string(),
///     "retry.backof.ms (code) is not a key of the admin client; did you mean retry.backoff.ms?"
/// );
/// # Ok::<(), milena_client::config::ConfigErrors>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AdminConfig {
    /// `bootstrap.servers`: at least one.
    pub bootstrap_servers: Vec<ServerAddress>,
    /// `client.id`: never empty.
    pub client_id: String,

    /// `default.api.timeout.ms`: how long a call may take, attempts and pauses included.
    pub default_api_timeout_ms: i32,
    /// `request.timeout.ms`
    pub request_timeout_ms: i32,
    /// `retries`: how often a call is tried again.
    pub retries: u32,
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

    /// What is not wrong, but should be known: old names, for example.
    pub notes: Vec<Note>,
    settings: Vec<Setting>,
}

impl AdminConfig {
    /// Begins a configuration in code.
    pub fn builder(bootstrap_servers: impl Into<String>) -> AdminConfigBuilder {
        AdminConfigBuilder::new(bootstrap_servers)
    }

    /// Checks raw settings, and gives them types. All that is wrong is reported at once.
    pub fn resolve(map: &ConfigMap) -> Result<Self, ConfigErrors> {
        let mut settings = Resolver::new(ClientKind::Admin, map);
        checks::check_servers(&mut settings);
        checks::check_pauses(&mut settings);
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

            default_api_timeout_ms: settings.read("default.api.timeout.ms"),
            request_timeout_ms: settings.read("request.timeout.ms"),
            retries: settings.read("retries"),
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

            notes: Vec::new(),
            settings: Vec::new(),
        }
    }
}

/// The name that the application chose, or one that no other admin client of this process has.
fn named_client(config: &AdminConfig) -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    if config.client_id.is_empty() {
        format!("adminclient-{}", LAST.fetch_add(1, Ordering::Relaxed) + 1)
    } else {
        config.client_id.clone()
    }
}

impl TryFrom<&ConfigMap> for AdminConfig {
    type Error = ConfigErrors;

    fn try_from(map: &ConfigMap) -> Result<Self, ConfigErrors> {
        Self::resolve(map)
    }
}

impl TryFrom<ConfigMap> for AdminConfig {
    type Error = ConfigErrors;

    fn try_from(map: ConfigMap) -> Result<Self, ConfigErrors> {
        Self::resolve(&map)
    }
}

/// Collects settings in code; [`build`](Self::build) checks them like all others.
#[derive(Debug, Clone, Default)]
#[must_use = "a configuration does nothing until it is built"]
pub struct AdminConfigBuilder {
    map: ConfigMap,
}

impl AdminConfigBuilder {
    /// `bootstrap.servers`: `host:port`, several separated by commas.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self::default().set("bootstrap.servers", bootstrap_servers.into())
    }

    /// Sets any key by Kafka's name.
    pub fn set(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.map.set(key, value);
        self
    }

    /// Adds settings that are stronger than those there are, such as those of a file.
    pub fn merge(mut self, stronger: ConfigMap) -> Self {
        self.map.merge(stronger);
        self
    }

    /// `client.id`
    pub fn client_id(self, client_id: impl fmt::Display) -> Self {
        self.set("client.id", client_id)
    }

    /// The settings as they are, unchecked.
    pub fn into_map(self) -> ConfigMap {
        self.map
    }

    pub fn build(self) -> Result<AdminConfig, ConfigErrors> {
        AdminConfig::resolve(&self.map)
    }
}

impl TryFrom<AdminConfigBuilder> for AdminConfig {
    type Error = ConfigErrors;

    fn try_from(builder: AdminConfigBuilder) -> Result<Self, ConfigErrors> {
        builder.build()
    }
}
