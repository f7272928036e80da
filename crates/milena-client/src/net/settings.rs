//! What connections and metadata need to know of the configuration.

use std::fmt;

use bytestring::ByteString;

/// Settings that all clients share, with Kafka's defaults. The name of each in Kafka stands beside it.
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
    /// `connections.max.idle.ms`; a negative number means without end.
    pub(crate) connections_max_idle_ms: i64,
    /// `send.buffer.bytes`; -1 leaves it to the operating system.
    pub(crate) send_buffer_bytes: i32,
    /// `receive.buffer.bytes`; -1 leaves it to the operating system.
    pub(crate) receive_buffer_bytes: i32,
    /// `metadata.max.age.ms`
    pub(crate) metadata_max_age_ms: i64,
    /// `allow.auto.create.topics`
    pub(crate) allow_auto_create_topics: bool,
    /// `metadata.recovery.strategy`
    pub(crate) metadata_recovery: MetadataRecovery,
    /// `metadata.recovery.rebootstrap.trigger.ms`
    pub(crate) rebootstrap_trigger_ms: i64,
    /// A longer answer is refused. It must be more than `fetch.max.bytes`, which one large batch may exceed.
    pub(crate) answer_bytes_max: usize,
    /// Buffers of answers that are kept for the next ones.
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
            answer_bytes_max: 1 << 30,
            idle_buffer_bytes_max: 64 << 20,
        }
    }
}

/// What to do when no known broker can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetadataRecovery {
    /// Go on trying the brokers that are known.
    None,
    /// Begin again with the bootstrap servers.
    Rebootstrap,
}

/// Where a broker listens.
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
