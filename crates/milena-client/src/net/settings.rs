//! The part of the configuration that connections and metadata need.

use std::fmt;

use bytestring::ByteString;

use crate::config::{MetadataRecovery, SecurityConfig};

/// Settings that all clients share, with Kafka's defaults. Each field is named after its configuration key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClientSettings {
    /// `bootstrap.servers`
    pub(crate) bootstrap: Vec<Endpoint>,
    /// `client.id`
    pub(crate) client_id: ByteString,
    /// `request.timeout.ms`
    pub(crate) request_timeout_ms: i64,
    /// `retry.backoff.ms`
    pub(crate) retry_backoff_ms: i64,
    /// `retry.backoff.max.ms`
    pub(crate) retry_backoff_max_ms: i64,
    /// `reconnect.backoff.ms`
    pub(crate) reconnect_backoff_ms: i64,
    /// `reconnect.backoff.max.ms`
    pub(crate) reconnect_backoff_max_ms: i64,
    /// `socket.connection.setup.timeout.ms`
    pub(crate) connection_setup_timeout_ms: i64,
    /// `socket.connection.setup.timeout.max.ms`
    pub(crate) connection_setup_timeout_max_ms: i64,
    /// `connections.max.idle.ms`; negative for no limit.
    pub(crate) connections_max_idle_ms: i64,
    /// `send.buffer.bytes`; -1 for the default of the operating system.
    pub(crate) send_buffer_bytes: i32,
    /// `receive.buffer.bytes`; -1 for the default of the operating system.
    pub(crate) receive_buffer_bytes: i32,
    /// `metadata.max.age.ms`
    pub(crate) metadata_max_age_ms: i64,
    /// `allow.auto.create.topics`
    pub(crate) allow_auto_create_topics: bool,
    /// `metadata.recovery.strategy`
    pub(crate) metadata_recovery: MetadataRecovery,
    /// `metadata.recovery.rebootstrap.trigger.ms`
    pub(crate) rebootstrap_trigger_ms: i64,
    /// `security.protocol`, `ssl.*` and `sasl.*`
    pub(crate) security: SecurityConfig,
    /// A longer response is refused. Larger than `fetch.max.bytes`, which a single large batch may exceed.
    pub(crate) response_bytes_max: usize,
    /// Memory for idle response buffers.
    pub(crate) idle_buffer_bytes_max: usize,
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self {
            bootstrap: Vec::new(),
            client_id: ByteString::new(),
            request_timeout_ms: 30_000,
            retry_backoff_ms: 100,
            retry_backoff_max_ms: 1_000,
            reconnect_backoff_ms: 50,
            reconnect_backoff_max_ms: 1_000,
            connection_setup_timeout_ms: 10_000,
            connection_setup_timeout_max_ms: 30_000,
            connections_max_idle_ms: 540_000,
            send_buffer_bytes: 131_072,
            receive_buffer_bytes: 65_536,
            metadata_max_age_ms: 300_000,
            allow_auto_create_topics: true,
            metadata_recovery: MetadataRecovery::Rebootstrap,
            rebootstrap_trigger_ms: 300_000,
            security: SecurityConfig::default(),
            response_bytes_max: 1 << 30,
            idle_buffer_bytes_max: 64 << 20,
        }
    }
}

/// Builds [`ClientSettings`] from the configuration of any client: all of them have these fields.
macro_rules! client_settings {
    ($config:expr, $allow_auto_create_topics:expr, $idle_buffer_bytes_max:expr) => {{
        let config = $config;
        let bytes = |bytes: Option<u32>| bytes.map_or(-1, |bytes| i32::try_from(bytes).unwrap_or(i32::MAX));
        let bootstrap = config.bootstrap_servers.iter();
        $crate::net::ClientSettings {
            bootstrap: bootstrap
                .map(|server| $crate::net::Endpoint::new(server.host.as_str(), server.port))
                .collect(),
            client_id: config.client_id.as_str().into(),
            request_timeout_ms: i64::from(config.request_timeout_ms),
            retry_backoff_ms: config.retry_backoff_ms,
            retry_backoff_max_ms: config.retry_backoff_max_ms,
            reconnect_backoff_ms: config.reconnect_backoff_ms,
            reconnect_backoff_max_ms: config.reconnect_backoff_max_ms,
            connection_setup_timeout_ms: config.socket_connection_setup_timeout_ms,
            connection_setup_timeout_max_ms: config.socket_connection_setup_timeout_max_ms,
            connections_max_idle_ms: config.connections_max_idle_ms.unwrap_or(-1),
            send_buffer_bytes: bytes(config.send_buffer_bytes),
            receive_buffer_bytes: bytes(config.receive_buffer_bytes),
            metadata_max_age_ms: config.metadata_max_age_ms,
            allow_auto_create_topics: $allow_auto_create_topics,
            metadata_recovery: config.metadata_recovery,
            rebootstrap_trigger_ms: config.metadata_recovery_rebootstrap_trigger_ms,
            security: config.security.clone(),
            idle_buffer_bytes_max: $idle_buffer_bytes_max,
            ..$crate::net::ClientSettings::default()
        }
    }};
}
pub(crate) use client_settings;

/// The host and port of a broker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Endpoint {
    pub(crate) host: ByteString,
    pub(crate) port: u16,
}

impl Endpoint {
    pub(crate) fn new(host: impl Into<ByteString>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
