//! The security protocols of Kafka's listeners.

use crate::choices;

/// `security.protocol` of a client, and the protocol of a broker's listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

choices! {
    SecurityProtocol {
        SaslSsl = "SASL_SSL",
        Plaintext = "PLAINTEXT",
        Ssl = "SSL",
        SaslPlaintext = "SASL_PLAINTEXT",
    }
}
