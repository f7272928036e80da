//! TLS to services, with rustls and ring.

use std::{path::Path, sync::Arc};

use tokio_rustls::rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};

use super::HttpHandlerError;

/// The configuration of a client that trusts the CAs of the system, and those in a file.
pub(super) fn config(authority: Option<&Path>) -> Result<Arc<ClientConfig>, HttpHandlerError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| HttpHandlerError::Authority {
        path: authority.unwrap_or(Path::new("")).to_owned(),
        problem: error.to_string(),
    })?;
    let roots = authorities(authority)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
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
