//! Certificates that are reloaded when their files change.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use milena_security::tls::ClientTls;

use super::connection::Common;

const INTERVAL: Duration = Duration::from_secs(10);

/// Looks at the files until the client ends. Connections that exist keep their certificates.
pub(super) async fn run(common: Weak<Common>) {
    loop {
        let Some(tls) = common.upgrade().and_then(|common| of(&common)) else {
            return;
        };
        let client = common.upgrade().map(|common| common.settings.client_id.clone());
        reload_if_changed(tls, client.as_deref().unwrap_or_default()).await;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// The TLS of a client.
pub(super) fn of(common: &Common) -> Option<Arc<ClientTls>> {
    let tls = common.settings.security.tls.as_ref()?;
    Some(Arc::clone(&tls.client))
}

/// Reads files that have changed, on another thread.
pub(super) async fn reload_if_changed(tls: Arc<ClientTls>, client: &str) {
    let reloaded = tokio::task::spawn_blocking(move || tls.reload_if_changed()).await;
    match reloaded {
        Ok(Ok(true)) => tracing::info!(event = "certificates_reloaded", client, "certificates reloaded"),
        Ok(Err(error)) => {
            tracing::warn!(event = "certificates_not_reloaded", client, %error, "certificates not reloaded: {error}");
        }
        // The runtime may be ending.
        Ok(Ok(false)) | Err(_) => {}
    }
}
