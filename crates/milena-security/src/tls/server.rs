//! TLS of servers.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;

use super::{TlsError, TlsOptions};

/// TLS configuration of a listener, which follows its files.
///
/// A connection takes [`config`](Self::config) when it is accepted; later reloads do not touch it.
#[derive(Debug)]
pub struct ServerTls {
    current: RwLock<Arc<ServerConfig>>,
}

impl ServerTls {
    pub fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let _ = options;
        Err(TlsError::Options("TLS for servers is not there yet".to_owned()))
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads all files again. The present configuration stays if one of them is unusable.
    ///
    /// Returns whether anything changed.
    pub fn reload(&self) -> Result<bool, TlsError> {
        Ok(false)
    }

    /// Like [`reload`](Self::reload), if a file has changed. Cheap enough for a timer.
    ///
    /// An unusable file is reported once, not at every call.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        Ok(false)
    }
}
