//! Errors in the settings of TLS.

/// A setting, file or store that TLS cannot be configured with.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsError {
    /// Settings that contradict each other, in Kafka's words.
    #[error("{0}")]
    Options(String),
    #[error("{role} {origin}: {problem}")]
    Material {
        /// The kind of material, as `key store`.
        role: &'static str,
        origin: String,
        problem: String,
    },
    #[error("the host `{host}` is neither a DNS name nor an IP address, so no certificate can match it")]
    ServerName { host: String },
    #[error("certificate not reloaded: {problem}")]
    Change { problem: String },
    #[error("TLS: {0}")]
    Rustls(String),
}
