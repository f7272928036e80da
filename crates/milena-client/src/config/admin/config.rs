//! The typed configuration of the admin client.

use std::sync::atomic::{AtomicU64, Ordering};

use milena_config::{ConfigErrors, ConfigMap, Note, Resolver, Setting};

use super::{
    super::{
        ClientKind, MetadataRecovery, SecurityConfig, ServerAddress, checks::read_buffer, client_config::client_config,
    },
    AdminConfigBuilder, checks,
};

/// The checked configuration of an admin client. Every field has Kafka's name, type and default; `docs/admin-config.md`
/// lists the exceptions.
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

    /// `default.api.timeout.ms`: the timeout of a call, with its retries and backoffs.
    pub default_api_timeout_ms: i32,
    /// `request.timeout.ms`
    pub request_timeout_ms: i32,
    /// `retries`: the maximum number of retries of a call.
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

    /// `security.protocol`, `ssl.*` and `sasl.*`.
    pub security: SecurityConfig,

    /// Facts about a valid configuration that its author should know, such as old names.
    pub notes: Vec<Note>,
    settings: Vec<Setting>,
}

impl AdminConfig {
    fn read(resolver: &Resolver) -> Self {
        Self {
            bootstrap_servers: resolver.read("bootstrap.servers"),
            client_id: resolver.text("client.id").unwrap_or_default(),

            default_api_timeout_ms: resolver.read("default.api.timeout.ms"),
            request_timeout_ms: resolver.read("request.timeout.ms"),
            retries: resolver.read("retries"),
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

            security: SecurityConfig::default(),
            notes: Vec::new(),
            settings: Vec::new(),
        }
    }
}

client_config!(AdminConfig, AdminConfigBuilder, Admin, checks::check);

impl AdminConfig {
    /// A `client.id` that no other admin client of this process has.
    #[expect(clippy::unused_self, reason = "the other clients use their fields")]
    fn default_client_id(&self) -> String {
        static LAST: AtomicU64 = AtomicU64::new(0);
        format!("adminclient-{}", LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}
