//! Failed connections, explained for people.

use std::{fmt, io};

use rustls::{AlertDescription, CertificateError, Error, PeerIncompatible};

/// A failed TLS connection: how to treat it, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFailure {
    pub kind: FailureKind,
    pub text: String,
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// One side refuses the other's certificate. Another attempt fails the same way.
    Authentication,
    /// The peer does not speak TLS, or none that both sides know.
    Protocol,
    /// The connection ended. Another attempt may succeed.
    Disconnected,
}

use FailureKind::{Authentication, Disconnected, Protocol};

/// Explains an error of a client's connection to `host`, during the handshake or later.
///
/// With TLS 1.3 a server refuses a client's certificate after the handshake, so that the first read reports it.
pub fn explain(error: &io::Error, host: &str) -> TlsFailure {
    let (kind, problem) = match cause(error) {
        Some(Error::InvalidCertificate(reason)) => (Authentication, certificate_problem(reason)),
        Some(Error::AlertReceived(alert)) => explain_alert(*alert),
        Some(Error::InvalidMessage(_)) => (
            Protocol,
            "it does not speak TLS on this port; connect to a TLS listener, or set security.protocol to PLAINTEXT or \
             SASL_PLAINTEXT"
                .to_owned(),
        ),
        Some(other) => explain_common(other),
        None if error.kind() == io::ErrorKind::UnexpectedEof => (
            Disconnected,
            "it closed the connection without ending TLS; if this happens at every attempt, the listener may have no TLS \
             (check security.protocol)"
                .to_owned(),
        ),
        None => (Disconnected, error.to_string()),
    };
    TlsFailure {
        kind,
        text: format!("TLS connection to {host} failed: {problem}"),
    }
}

/// Explains an error of a connection that a server accepted from `peer`.
pub fn explain_accept(error: &io::Error, peer: &str) -> TlsFailure {
    let (kind, problem) = match cause(error) {
        Some(Error::NoCertificatesPresented) => (
            Authentication,
            "it sent no certificate, which ssl.client.auth=required demands".to_owned(),
        ),
        Some(Error::InvalidCertificate(reason)) => (
            Authentication,
            format!("its certificate is refused: {}", certificate_problem(reason)),
        ),
        Some(Error::AlertReceived(alert)) => match alert {
            AlertDescription::UnknownCA
            | AlertDescription::CertificateUnknown
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRevoked
            | AlertDescription::UnsupportedCertificate => (
                Authentication,
                format!(
                    "it refuses the certificate of this listener ({alert:?}); the client needs the CA of ssl.keystore in its \
                     trust store, and connects by a name in the certificate"
                ),
            ),
            AlertDescription::CloseNotify | AlertDescription::UserCanceled => {
                (Disconnected, "it closed the connection".to_owned())
            }
            other => (Protocol, format!("it ended the handshake with the alert {other:?}")),
        },
        Some(Error::InvalidMessage(_)) => (
            Protocol,
            "it does not speak TLS; its security.protocol should be SSL or SASL_SSL".to_owned(),
        ),
        Some(other) => explain_common(other),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            (Disconnected, "it closed the connection during the handshake".to_owned())
        }
        None => (Disconnected, error.to_string()),
    };
    TlsFailure {
        kind,
        text: format!("TLS connection from {peer} failed: {problem}"),
    }
}

fn cause(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn certificate_problem(reason: &CertificateError) -> String {
    match reason {
        CertificateError::Other(other) => other.0.to_string(),
        CertificateError::UnknownIssuer => "it is signed by an authority that is not in the trust store".to_owned(),
        other => other.to_string(),
    }
}

/// Explains the alert of a server.
fn explain_alert(alert: AlertDescription) -> (FailureKind, String) {
    let own = "our client certificate";
    let (kind, problem) = match alert {
        AlertDescription::CertificateRequired => (
            Authentication,
            "it demands a client certificate; set ssl.keystore.location, or ssl.certificate.location and ssl.key.location"
                .to_owned(),
        ),
        AlertDescription::UnknownCA => (
            Authentication,
            format!("it does not trust the authority that signed {own}"),
        ),
        AlertDescription::BadCertificate | AlertDescription::CertificateUnknown => (
            Authentication,
            format!("it does not accept {own}, or demands one: set ssl.keystore.location"),
        ),
        AlertDescription::CertificateExpired => (Authentication, format!("{own} has expired")),
        AlertDescription::CertificateRevoked => (Authentication, format!("{own} is revoked")),
        AlertDescription::UnsupportedCertificate => (
            Authentication,
            format!("it does not support {own}; it may lack the extended key usage clientAuth"),
        ),
        AlertDescription::AccessDenied => (Authentication, format!("it denies access to {own}")),
        AlertDescription::DecryptError => (Authentication, format!("it cannot verify the signature of {own}")),
        AlertDescription::HandshakeFailure => (
            Authentication,
            "both sides have no cipher suite in common, or it demands a client certificate: check ssl.cipher.suites and \
             ssl.keystore.location"
                .to_owned(),
        ),
        AlertDescription::ProtocolVersion => (
            Protocol,
            "it supports none of our TLS versions; check ssl.enabled.protocols".to_owned(),
        ),
        AlertDescription::UnrecognisedName => (Protocol, "it knows no such host name".to_owned()),
        AlertDescription::CloseNotify | AlertDescription::UserCanceled => {
            return (Disconnected, "it closed the connection".to_owned());
        }
        _ => (Protocol, "it ended the connection".to_owned()),
    };
    (kind, format!("{problem} (TLS alert {alert:?})"))
}

/// Explains errors that mean the same on both sides.
fn explain_common(error: &Error) -> (FailureKind, String) {
    let problem = match error {
        Error::PeerIncompatible(
            PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled
            | PeerIncompatible::Tls13RequiredForQuic
            | PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::SupportedVersionsExtensionRequired,
        ) => "both sides have no TLS version in common; check ssl.enabled.protocols".to_owned(),
        Error::PeerIncompatible(PeerIncompatible::NoCipherSuitesInCommon) => {
            "both sides have no cipher suite in common; check ssl.cipher.suites".to_owned()
        }
        other => other.to_string(),
    };
    (Protocol, problem)
}

/// A protocol other than the expected one, recognised by the first bytes of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongProtocol {
    /// A TLS handshake or alert on a connection without TLS.
    Tls,
    /// An HTTP request or response.
    Http,
}

impl WrongProtocol {
    /// Explains to a client without TLS what the server speaks.
    pub fn explain_server(self) -> &'static str {
        match self {
            Self::Tls => "the server speaks TLS on this port; set security.protocol to SSL or SASL_SSL",
            Self::Http => "the server speaks HTTP on this port; it is not a Kafka listener",
        }
    }

    /// Explains to a server without TLS what its client speaks.
    pub fn explain_client(self) -> &'static str {
        match self {
            Self::Tls => "the client speaks TLS, and this listener does not; its security.protocol is wrong",
            Self::Http => "the client speaks HTTP, and this is a Kafka listener",
        }
    }
}

/// Recognises TLS and HTTP by the first bytes of a peer, where Kafka's protocol has the length of a frame.
///
/// Four bytes are enough.
pub fn sniff(first: &[u8]) -> Option<WrongProtocol> {
    const HTTP: [&[u8]; 9] = [
        b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"DELE", b"PATC", b"PRI ",
    ];
    match first {
        // Handshake or alert, and a version from SSL 3 to TLS 1.3.
        [0x15 | 0x16, 0x03, 0x00..=0x04, ..] => Some(WrongProtocol::Tls),
        _ if HTTP.iter().any(|method| first.starts_with(method)) => Some(WrongProtocol::Http),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(error: Error) -> TlsFailure {
        explain(&io::Error::new(io::ErrorKind::InvalidData, error), "broker1")
    }

    #[test]
    fn alerts_about_certificates_are_authentication_errors() {
        for alert in [
            AlertDescription::CertificateRequired,
            AlertDescription::BadCertificate,
            AlertDescription::UnknownCA,
            AlertDescription::CertificateExpired,
            AlertDescription::AccessDenied,
            AlertDescription::HandshakeFailure,
        ] {
            let failure = failure(Error::AlertReceived(alert));
            assert_eq!(failure.kind, Authentication, "{failure}");
            assert!(
                failure.text.contains("broker1") && failure.text.contains("TLS alert"),
                "{failure}"
            );
        }
        assert_eq!(
            failure(Error::AlertReceived(AlertDescription::ProtocolVersion)).kind,
            Protocol
        );
        assert_eq!(
            failure(Error::AlertReceived(AlertDescription::CloseNotify)).kind,
            Disconnected
        );
    }

    #[test]
    fn other_protocols_are_recognised_by_four_bytes() {
        assert_eq!(sniff(&[0x16, 3, 1, 2]), Some(WrongProtocol::Tls));
        assert_eq!(sniff(&[0x15, 3, 3, 0]), Some(WrongProtocol::Tls));
        assert_eq!(sniff(b"HTTP/1.1 400"), Some(WrongProtocol::Http));
        assert_eq!(sniff(b"GET "), Some(WrongProtocol::Http));
        assert_eq!(sniff(&[0, 0, 0, 20]), None);
        assert_eq!(sniff(&[0x16, 3]), None);
        assert_eq!(sniff(&[]), None);
    }

    #[test]
    fn an_end_without_close_is_a_disconnect() {
        let error = io::Error::new(io::ErrorKind::UnexpectedEof, "eof");
        assert_eq!(explain(&error, "broker1").kind, Disconnected);
        assert_eq!(explain_accept(&error, "10.0.0.1").kind, Disconnected);
    }
}
