//! Creation of an admin client.

use std::sync::Arc;

use super::{Admin, Inner, NewAdminError};
use crate::{
    config::{AdminConfig, ConfigErrors},
    io::Io,
    metadata::Metadata,
    net::{Connections, client_settings},
};

/// The size of receive buffers that idle connections keep. Responses to admin calls are small.
const IDLE_BUFFER_BYTES: usize = 1 << 20;

impl Admin {
    /// Creates an admin client from a configuration, its builder, or a map. Does not wait for a broker.
    pub fn new<C>(config: C) -> Result<Self, NewAdminError>
    where
        C: TryInto<AdminConfig>,
        ConfigErrors: From<C::Error>,
    {
        let config = config.try_into().map_err(ConfigErrors::from)?;
        for note in &config.notes {
            tracing::warn!(event = "config_note", "{note}");
        }
        let io = Io::start().map_err(|error| NewAdminError::Io(error.to_string()))?;
        let connections = Connections::new(
            io.clone(),
            Arc::new(client_settings!(&config, false, IDLE_BUFFER_BYTES)),
        );
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
