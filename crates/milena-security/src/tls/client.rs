//! TLS of clients.

use std::sync::Arc;

use rustls::{ClientConfig, sign::SingleCertAndKey};

use super::{
    TlsError, TlsOptions,
    live::Live,
    material::{Anchors, Material},
    names::Allowed,
    verify::{AnyServer, ServerVerifier},
};

/// TLS configuration of a client, which follows its files.
///
/// All connections of a client share one, because sessions are resumed within one configuration. A connection takes
/// [`config`](Self::config) when it is made; later reloads do not touch it.
#[derive(Debug)]
pub struct ClientTls {
    live: Live<ClientConfig>,
}

impl ClientTls {
    pub fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let live = Live::new(options.clone(), build)?;
        Ok(Self { live })
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<ClientConfig> {
        self.live.current()
    }

    /// Reads all files again. The present configuration stays if one of them is unusable.
    ///
    /// Returns whether anything changed.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.live.reload(build)
    }

    /// Like [`reload`](Self::reload), if a file has changed. Cheap enough for a timer.
    ///
    /// An unusable file is reported once, not at every call.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        self.live.reload_if_changed(build)
    }
}

fn build(options: &TlsOptions, material: Material) -> Result<ClientConfig, TlsError> {
    let allowed = Allowed::new(&options.protocols, &options.cipher_suites)?;
    let provider = Arc::new(allowed.provider);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_protocol_versions(&allowed.versions)
        .map_err(|error| TlsError::Rustls(error.to_string()))?
        .dangerous();
    let builder = if options.verify_certificate {
        let anchors = match material.anchors {
            Some(anchors) => anchors,
            None => Anchors::system()?,
        };
        let verifier = ServerVerifier::new(&provider, anchors, material.revocation_lists, options.verify_host)?;
        builder.with_custom_certificate_verifier(Arc::new(verifier))
    } else {
        builder.with_custom_certificate_verifier(Arc::new(AnyServer(provider.signature_verification_algorithms)))
    };
    Ok(match &material.identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.certified()))),
        None => builder.with_no_client_auth(),
    })
}
