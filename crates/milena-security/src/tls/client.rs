//! TLS of clients.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ClientConfig;

use super::{TlsError, TlsOptions};

/// TLS configuration of a client, which follows its files.
///
/// All connections of a client share one, because sessions are resumed within one configuration. A connection takes
/// [`config`](Self::config) when it is made; later reloads do not touch it.
#[derive(Debug)]
pub struct ClientTls {
    current: RwLock<Arc<ClientConfig>>,
}

impl ClientTls {
    pub fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let _ = options;
        Err(TlsError::Options("TLS for clients is not there yet".to_owned()))
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<ClientConfig> {
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
