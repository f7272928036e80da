//! TLS of servers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use rustls::{
    ServerConfig,
    crypto::ring::Ticketer,
    server::{ServerSessionMemoryCache, danger::ClientCertVerifier},
    sign::SingleCertAndKey,
};

use super::{ClientAuth, TlsError, TlsOptions, live::Live, material::Material, names::Allowed, verify::ClientVerifier};
use crate::{
    store::Identity,
    x509::{AlternativeName, Certificate, format_seconds, seconds_since_1970},
};

/// Sessions that a server with client certificates remembers.
const SESSIONS_MAX: usize = 4096;

/// TLS configuration of a listener, which follows its files.
///
/// A connection takes [`config`](Self::config) when it is accepted; later reloads do not touch it. Sessions from before a
/// reload are not resumed after it, so that a client whose CA was removed does not slip in.
#[derive(Debug)]
pub struct ServerTls {
    live: Live<ServerConfig>,
    /// Names in the present certificate.
    names: Mutex<Names>,
}

impl ServerTls {
    pub fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let mut names = None;
        let live = Live::new(options.clone(), |options, material| {
            names = Some(Names::of(identity(&material)?)?);
            build(options, material)
        })?;
        Ok(Self {
            live,
            names: Mutex::new(names.unwrap_or_default()),
        })
    }

    /// The configuration for the next connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.live.current()
    }

    /// When the present certificate expires, in seconds since 1970.
    pub fn expires_at_s(&self) -> i64 {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).not_after
    }

    /// Reads all files again. The present configuration stays if one of them is unusable.
    ///
    /// A new certificate must have the subject and at least the names of the present one, unless the options allow changes,
    /// and must not have expired. Returns whether anything changed.
    pub fn reload(&self) -> Result<bool, TlsError> {
        self.live.reload(|options, material| self.rebuild(options, material))
    }

    /// Like [`reload`](Self::reload), if a file has changed. Cheap enough for a timer.
    ///
    /// An unusable file is reported once, not at every call.
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        self.live
            .reload_if_changed(|options, material| self.rebuild(options, material))
    }

    fn rebuild(&self, options: &TlsOptions, material: Material) -> Result<ServerConfig, TlsError> {
        let new = Names::of(identity(&material)?)?;
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.check_change(&new, options)?;
        let config = build(options, material)?;
        *names = new;
        Ok(config)
    }
}

fn identity(material: &Material) -> Result<&Identity, TlsError> {
    material.identity.as_ref().ok_or_else(|| {
        TlsError::Options(
            "a listener with TLS needs a certificate: set ssl.keystore.location, or ssl.keystore.key and \
             ssl.keystore.certificate.chain"
                .to_owned(),
        )
    })
}

fn build(options: &TlsOptions, material: Material) -> Result<ServerConfig, TlsError> {
    let resolver = SingleCertAndKey::from(identity(&material)?.certified());
    let allowed = Allowed::new(&options.protocols, &options.cipher_suites)?;
    let provider = Arc::new(allowed.provider);
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let builder = builder
        .with_protocol_versions(&allowed.versions)
        .map_err(|error| TlsError::Rustls(error.to_string()))?;
    let verifier = match (options.client_auth, material.anchors) {
        (ClientAuth::None, _) => None,
        (client_auth, Some(anchors)) => {
            let verifier = ClientVerifier::new(&provider, anchors, material.revocation_lists, client_auth)?;
            Some(Arc::new(verifier) as Arc<dyn ClientCertVerifier>)
        }
        (_, None) => {
            return Err(TlsError::Options(
                "ssl.client.auth needs ssl.truststore.location or ssl.truststore.certificates; otherwise certificates of any \
                 public authority would be accepted"
                    .to_owned(),
            ));
        }
    };
    let has_client_auth = verifier.is_some();
    let builder = match verifier {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    if has_client_auth {
        // Tickets would carry the client's chain, which makes them long.
        config.session_storage = ServerSessionMemoryCache::new(SESSIONS_MAX);
    } else {
        config.ticketer = Ticketer::new().map_err(|error| TlsError::Rustls(error.to_string()))?;
    }
    Ok(config)
}

/// Names in a server's certificate.
#[derive(Debug, Default)]
struct Names {
    subject: String,
    alternative: Vec<AlternativeName>,
    not_after: i64,
}

impl Names {
    fn of(identity: &Identity) -> Result<Self, TlsError> {
        let leaf = Certificate::parse(identity.leaf()).map_err(|error| TlsError::Change {
            problem: error.to_string(),
        })?;
        Ok(Self {
            subject: leaf.subject_text(),
            alternative: leaf.alternative_names.clone(),
            not_after: leaf.not_after,
        })
    }

    /// Checks that clients of the present certificate accept the new one.
    fn check_change(&self, new: &Self, options: &TlsOptions) -> Result<(), TlsError> {
        let change = |problem: String| Err(TlsError::Change { problem });
        if !options.allow_dn_changes && !self.subject.eq_ignore_ascii_case(&new.subject) {
            return change(format!(
                "its subject is {}, that of the present one is {}; set ssl.allow.dn.changes=true to allow this",
                new.subject, self.subject
            ));
        }
        let lost: Vec<String> = self
            .alternative
            .iter()
            .filter(|name| !new.alternative.contains(name))
            .map(ToString::to_string)
            .collect();
        if !options.allow_san_changes && !lost.is_empty() {
            return change(format!(
                "it lacks the names {} of the present one; set ssl.allow.san.changes=true to allow this",
                lost.join(", ")
            ));
        }
        if new.not_after < seconds_since_1970(SystemTime::now()) {
            return change(format!("it expired at {}", format_seconds(new.not_after)));
        }
        Ok(())
    }
}
