//! TLS to services, with rustls and ring.

use std::{fmt, io, path::Path, sync::Arc};

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        CertificateError, ClientConfig, Error, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName, pem::PemObject},
    },
};

use super::HttpHandlerError;

/// TLS configuration of a service.
pub(super) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// `name` is the name that the certificate must match.
    pub(super) fn new(address: &str, name: &str, authority: Option<&Path>) -> Result<Self, HttpHandlerError> {
        let server = ServerName::try_from(name.to_owned());
        let server = server.map_err(|_| HttpHandlerError::Address {
            address: address.to_owned(),
        })?;
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| HttpHandlerError::Tls {
            host: name.to_owned(),
            problem: error.to_string(),
        })?;
        let mut config = builder
            .with_root_certificates(authorities(authority)?)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            name: server,
        })
    }

    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// CA certificates of the system and of a file.
fn authorities(file: Option<&Path>) -> Result<RootCertStore, HttpHandlerError> {
    let mut all = RootCertStore::empty();
    let system = rustls_native_certs::load_native_certs();
    for error in system.errors {
        tracing::debug!(event = "system_ca_unreadable", %error, "reading some CA certificates of the system failed: {error}");
    }
    all.add_parsable_certificates(system.certs);
    if let Some(path) = file {
        let bad = |problem: String| HttpHandlerError::Authority {
            path: path.to_owned(),
            problem,
        };
        let found = CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?;
        let found: Result<Vec<_>, _> = found.collect();
        let found = found.map_err(|error| bad(error.to_string()))?;
        if found.is_empty() {
            return Err(bad("no BEGIN CERTIFICATE found".to_owned()));
        }
        for certificate in found {
            all.add(certificate).map_err(|error| bad(error.to_string()))?;
        }
    }
    if all.is_empty() {
        return Err(HttpHandlerError::NoAuthorities);
    }
    Ok(all)
}

/// Explains a TLS error, with a remedy.
pub(super) fn explain(error: &io::Error) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let advice = match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "; set http_ca to a file with the certificate of its CA"
        }
        Error::InvalidMessage(_) => "; the port may serve HTTP without TLS",
        _ => "",
    };
    Some(format!("{error}{advice}"))
}
