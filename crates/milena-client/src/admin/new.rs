//! Making an admin client.

use std::sync::Arc;

use super::{Admin, Inner, NewAdminError};
use crate::{
    config::{self, AdminConfig, ConfigErrors},
    io::Io,
    metadata::Metadata,
    net::{ClientSettings, Connections, Endpoint, MetadataRecovery},
};

/// Answers to admin calls are small; no more than this is kept for the next ones.
const IDLE_BUFFER_BYTES: usize = 1 << 20;

impl Admin {
    /// An admin client from a configuration, its builder, or a map of settings. This does not wait for a broker.
    pub fn new<C>(config: C) -> Result<Self, NewAdminError>
    where
        C: TryInto<AdminConfig>,
        ConfigErrors: From<C::Error>,
    {
        let config = config.try_into().map_err(ConfigErrors::from)?;
        for note in &config.notes {
            tracing::warn!("{note}");
        }
        let io = Io::start().map_err(|error| NewAdminError::Io(error.to_string()))?;
        let connections = Connections::new(io.clone(), Arc::new(client_settings(&config)));
        let metadata = Metadata::start(connections.clone());
        let timeout_ms = i64::from(config.default_api_timeout_ms);
        let inner = Inner {
            config,
            io,
            connections,
            metadata,
        };
        Ok(Self {
            inner: Arc::new(inner),
            timeout_ms,
        })
    }
}

fn client_settings(config: &AdminConfig) -> ClientSettings {
    let bytes = |bytes: Option<u32>| bytes.map_or(-1, |bytes| i32::try_from(bytes).unwrap_or(i32::MAX));
    let bootstrap = config.bootstrap_servers.iter().map(|server| Endpoint {
        host: server.host.as_str().into(),
        port: server.port,
    });
    ClientSettings {
        bootstrap: bootstrap.collect(),
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
        allow_auto_create_topics: false,
        metadata_recovery: match config.metadata_recovery {
            config::MetadataRecovery::Rebootstrap => MetadataRecovery::Rebootstrap,
            config::MetadataRecovery::None => MetadataRecovery::None,
        },
        rebootstrap_trigger_ms: config.metadata_recovery_rebootstrap_trigger_ms,
        idle_buffer_bytes_max: IDLE_BUFFER_BYTES,
        ..ClientSettings::default()
    }
}
