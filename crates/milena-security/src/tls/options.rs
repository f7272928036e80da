//! Settings of TLS as they stand in a configuration.

use std::{fmt, path::PathBuf};

use crate::Secret;

/// Raw values of the `ssl.*` settings, under Java's names and librdkafka's. The default is Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// `ssl.keystore.location`: certificate chain and private key in one file.
    pub keystore: Option<Source>,
    /// `ssl.keystore.password`. Not for PEM.
    pub keystore_password: Option<Secret>,
    /// `ssl.key.password`. The key store's password is used if it is absent, except for PEM.
    pub key_password: Option<Secret>,
    /// `ssl.keystore.key`, or librdkafka's `ssl.key.location` and `ssl.key.pem`.
    pub key: Option<Source>,
    /// `ssl.keystore.certificate.chain`, or librdkafka's `ssl.certificate.location` and `ssl.certificate.pem`.
    pub certificate_chain: Option<Source>,
    /// `ssl.truststore.location` or `ssl.ca.location`: a store, a PEM file, or a directory of PEM files.
    ///
    /// Without it and `truststore_certificates`, a client trusts the CAs of the system.
    pub truststore: Option<Source>,
    /// `ssl.truststore.certificates` or `ssl.ca.pem`.
    pub truststore_certificates: Option<Source>,
    /// `ssl.truststore.password`. Not needed to read certificates, and not for PEM.
    pub truststore_password: Option<Secret>,
    /// `ssl.crl.location`: revoked certificates, PEM or DER.
    pub crl: Option<Source>,
    /// `ssl.enabled.protocols`: `TLSv1.2`, `TLSv1.3`.
    pub protocols: Vec<String>,
    /// `ssl.cipher.suites` by the names of Java or of OpenSSL. Empty means all.
    pub cipher_suites: Vec<String>,
    /// Whether the server's certificate must have the name of the host (`ssl.endpoint.identification.algorithm=https`).
    pub verify_host: bool,
    /// librdkafka's `enable.ssl.certificate.verification`. Without it any server is trusted, whatever its name.
    pub verify_certificate: bool,
    /// `ssl.client.auth`, for servers.
    pub client_auth: ClientAuth,
    /// `ssl.allow.dn.changes`: whether a reload may bring a server certificate with another subject.
    pub allow_dn_changes: bool,
    /// `ssl.allow.san.changes`: whether a reload may take names away from a server certificate.
    pub allow_san_changes: bool,
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            keystore: None,
            keystore_password: None,
            key_password: None,
            key: None,
            certificate_chain: None,
            truststore: None,
            truststore_certificates: None,
            truststore_password: None,
            crl: None,
            protocols: vec!["TLSv1.2".to_owned(), "TLSv1.3".to_owned()],
            cipher_suites: Vec::new(),
            verify_host: true,
            verify_certificate: true,
            client_auth: ClientAuth::None,
            allow_dn_changes: false,
            allow_san_changes: false,
        }
    }
}

/// Origin of certificates or keys. Their format is recognised by the content.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// A file; for certificate authorities also a directory of files.
    File(PathBuf),
    /// PEM text from a config.
    Text(Secret),
}

impl Source {
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(path.into())
    }

    pub fn text(text: impl Into<Secret>) -> Self {
        Self::Text(text.into())
    }
}

/// The path of a file; of a text only that it is one.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Text(_) => f.write_str("the text in the config"),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whether a server asks its clients for certificates (`ssl.client.auth`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    #[default]
    None,
    /// A client may come without a certificate; a wrong one is refused.
    Requested,
    Required,
}
