//! TLS to services, from the settings of a handler.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use milena_http::Client;
use milena_security::{
    Secret, reference,
    tls::{ClientTls, Source, TlsError, TlsOptions},
};

use tokio::time::Instant;

/// Interval of the checks whether a file of certificates has changed.
const RELOAD_CHECK: Duration = Duration::from_secs(10);

/// TLS settings of a service. Files are PEM, PKCS#12 or JKS, recognised by their content.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct HttpTls {
    /// CA certificates that are trusted instead of those of the system: a file, or a directory of PEM files.
    pub ca: Option<PathBuf>,
    /// Certificate chain of this client.
    pub certificate: Option<PathBuf>,
    /// Private key of `certificate`.
    pub key: Option<PathBuf>,
    /// Certificate chain and private key in one file, instead of `certificate` and `key`.
    pub keystore: Option<PathBuf>,
    /// Password of the key or key store, or a reference such as `${env:NAME}`.
    pub password: Option<Secret>,
}

impl HttpTls {
    pub(super) fn is_set(&self) -> bool {
        *self != Self::default()
    }

    fn options(&self) -> Result<TlsOptions, String> {
        if self.keystore.is_some() && (self.certificate.is_some() || self.key.is_some()) {
            return Err("set either http_keystore, or http_certificate and http_key".to_owned());
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err("set both http_certificate and http_key".to_owned());
        }
        let source = |path: &Option<PathBuf>| path.as_ref().map(Source::file);
        let password = self.password.as_ref().map(|text| reference::resolve(text.expose()));
        let password = password
            .transpose()
            .map_err(|error| format!("http_password: {error}"))?;
        Ok(TlsOptions {
            truststore: source(&self.ca),
            certificate_chain: source(&self.certificate),
            key: source(&self.key),
            keystore: source(&self.keystore),
            keystore_password: password.clone().filter(|_| self.keystore.is_some()),
            key_password: password.filter(|_| self.key.is_some()),
            ..TlsOptions::default()
        })
    }
}

/// TLS of one service, which follows its files.
#[derive(Debug)]
pub(super) struct ServiceTls {
    client: ClientTls,
    checked: Mutex<Instant>,
}

impl ServiceTls {
    pub(super) fn new(settings: &HttpTls) -> Result<Self, String> {
        let client = ClientTls::new(&settings.options()?).map_err(|error: TlsError| error.to_string())?;
        Ok(Self {
            client,
            checked: Mutex::new(Instant::now()),
        })
    }

    pub(super) fn current(&self) -> &ClientTls {
        &self.client
    }

    /// Gives the client new certificates, if their files have changed since the last check.
    pub(super) fn follow(&self, client: &Client) {
        {
            let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
            if checked.elapsed() < RELOAD_CHECK {
                return;
            }
            *checked = Instant::now();
        }
        let reloaded = self.client.reload_if_changed().map_err(|error| error.to_string());
        let replaced = reloaded.and_then(|is_new| match is_new {
            true => client
                .replace_tls(&self.client.config())
                .map_err(|error| error.to_string()),
            false => Ok(()),
        });
        if let Err(error) = replaced {
            let url = client.url();
            tracing::warn!(event = "http_certificates_unusable", %url, error, "changed certificates cannot be used; the old ones stay: {error}");
        }
    }
}
