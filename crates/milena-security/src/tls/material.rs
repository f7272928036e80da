//! Keys and certificates that the options name, read and checked.

use std::path::Path;

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, CertificateRevocationListDer},
};

use super::{
    Source, TlsError, TlsOptions,
    files::{self, Content, Files},
};
use crate::{
    store::{self, Identity, PairError, StoreError},
    x509::Certificate,
};

const KEY_STORE: &str = "key store";
const TRUST_STORE: &str = "trust store";

/// Everything that a configuration is made of.
pub(super) struct Material {
    pub(super) identity: Option<Identity>,
    /// `None` if the options name no trust store.
    pub(super) anchors: Option<Anchors>,
    pub(super) revocation_lists: Vec<CertificateRevocationListDer<'static>>,
    /// Digest of all contents, to notice whether anything changed.
    pub(super) digest: Vec<u8>,
}

impl Material {
    pub(super) fn load(options: &TlsOptions) -> Result<Self, TlsError> {
        check_consistency(options)?;
        let mut files = Files::new();
        let identity = load_identity(options, &mut files)?;
        let anchors = load_anchors(options, &mut files)?;
        let revocation_lists = match &options.crl {
            Some(source) => {
                let content = files.read("revocation list", source)?;
                store::read_revocation_lists(&content).map_err(|error| material("revocation list", source, error))?
            }
            None => Vec::new(),
        };
        Ok(Self {
            identity,
            anchors,
            revocation_lists,
            digest: files.finish(),
        })
    }
}

/// Checks combinations of settings as Kafka does, in its words.
fn check_consistency(options: &TlsOptions) -> Result<(), TlsError> {
    let has_password = options.keystore_password.is_some();
    let has_trust_password = options.truststore_password.is_some();
    let problem = match (&options.key, &options.certificate_chain, &options.keystore) {
        (Some(_), None, _) => "SSL private key is specified, but certificate chain is not specified.",
        (Some(_), Some(_), Some(_)) => "Both SSL key store location and separate private key are specified.",
        (Some(_), Some(_), None) if has_password => {
            "SSL key store password cannot be specified with PEM format, only key password may be specified."
        }
        (None, Some(_), _) => "SSL certificate chain is specified, but private key is not specified",
        (None, None, None) if has_password => "SSL key store is not specified, but key store password is specified.",
        _ => match (&options.truststore_certificates, &options.truststore) {
            (Some(_), Some(_)) => "Both SSL trust store location and separate trust certificates are specified.",
            (Some(_), None) if has_trust_password => "SSL trust store password cannot be specified for PEM format.",
            (None, None) if has_trust_password => {
                "SSL trust store is not specified, but trust store password is specified."
            }
            _ => return Ok(()),
        },
    };
    Err(TlsError::Options(problem.to_owned()))
}

fn load_identity(options: &TlsOptions, files: &mut Files) -> Result<Option<Identity>, TlsError> {
    if let (Some(key), Some(chain)) = (&options.key, &options.certificate_chain) {
        let chain_content = files.read("certificate chain", chain)?;
        let key_content = files.read("private key", key)?;
        let pair = store::read_pem_pair(&chain_content, &key_content, options.key_password.as_ref());
        return pair.map(Some).map_err(|error| match error {
            PairError::Chain(error) => material("certificate chain", chain, error),
            PairError::Key(error) => material("private key", key, error),
        });
    }
    let Some(source) = &options.keystore else {
        return Ok(None);
    };
    let content = files.read(KEY_STORE, source)?;
    let identity = store::read_identity(
        &content,
        options.keystore_password.as_ref(),
        options.key_password.as_ref(),
    );
    identity.map(Some).map_err(|error| match error {
        StoreError::PasswordMissing => TlsError::Options(format!(
            "SSL key store is specified, but key store password is not specified. ({source})"
        )),
        StoreError::PasswordForPem => TlsError::Options(format!("{error} ({source})")),
        error => material(KEY_STORE, source, error),
    })
}

/// Certificates to trust.
pub(super) struct Anchors {
    pub(super) roots: RootCertStore,
    /// All certificates as they are, to recognise a peer's own.
    pub(super) certificates: Vec<CertificateDer<'static>>,
    /// For messages: where they come from.
    pub(super) origin: String,
}

impl Anchors {
    /// The certificate authorities of the system.
    pub(super) fn system() -> Result<Self, TlsError> {
        let found = rustls_native_certs::load_native_certs();
        for error in &found.errors {
            tracing::debug!(event = "system_ca_unreadable", %error, "reading some CA certificates of the system failed: {error}");
        }
        Self::new(found.certs, "the CA certificates of the system".to_owned()).map_err(|_| {
            TlsError::Options(
                "no CA certificates of the system were found; install them (package ca-certificates), or set \
                 ssl.truststore.location or ssl.ca.location"
                    .to_owned(),
            )
        })
    }

    /// Takes all certificates that can sign others. A store with one odd certificate among many stays usable.
    fn new(mut certificates: Vec<CertificateDer<'static>>, origin: String) -> Result<Self, TlsError> {
        certificates.sort_by(|one, other| one.as_ref().cmp(other.as_ref()));
        certificates.dedup();
        let mut roots = RootCertStore::empty();
        for certificate in &certificates {
            if let Err(error) = roots.add(certificate.clone()) {
                let subject =
                    Certificate::parse(certificate).map_or_else(|error| error.to_string(), |it| it.subject_text());
                tracing::warn!(
                    event = "ca_certificate_unusable",
                    subject,
                    %error,
                    "{origin}: the certificate of {subject} is not used: {error}"
                );
            }
        }
        if roots.is_empty() {
            return Err(TlsError::Material {
                role: TRUST_STORE,
                origin,
                problem: "contains no usable certificate".to_owned(),
            });
        }
        Ok(Self {
            roots,
            certificates,
            origin,
        })
    }
}

fn load_anchors(options: &TlsOptions, files: &mut Files) -> Result<Option<Anchors>, TlsError> {
    let Some(source) = options.truststore.as_ref().or(options.truststore_certificates.as_ref()) else {
        return Ok(None);
    };
    let certificates = match source {
        Source::File(path) if path.is_dir() => load_directory(path, files)?,
        _ => {
            let content = files.read(TRUST_STORE, source)?;
            store::read_trusted(&content, options.truststore_password.as_ref()).map_err(|error| match error {
                StoreError::PasswordForTrustedPem => TlsError::Options(format!("{error} ({source})")),
                error => material(TRUST_STORE, source, error),
            })?
        }
    };
    Anchors::new(certificates, source.to_string()).map(Some)
}

/// Reads all certificates in a directory. Other files there are not meant.
fn load_directory(path: &Path, files: &mut Files) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut certificates = Vec::new();
    for path in files::list(TRUST_STORE, path)? {
        let content: Content = files.read(TRUST_STORE, &Source::File(path))?;
        certificates.extend(store::read_trusted(&content, None).unwrap_or_default());
    }
    if certificates.is_empty() {
        return Err(TlsError::Material {
            role: TRUST_STORE,
            origin: path.display().to_string(),
            problem: "no file in this directory contains a certificate".to_owned(),
        });
    }
    Ok(certificates)
}

fn material(role: &'static str, source: &Source, error: StoreError) -> TlsError {
    TlsError::Material {
        role,
        origin: source.to_string(),
        problem: error.to_string(),
    }
}
