//! The reason why a client refuses a server's certificate, in words.

use std::fmt;

use rustls::{
    CertificateError,
    pki_types::{CertificateDer, ServerName},
};

use crate::x509::{Certificate, format_seconds};

/// Names in a message; a certificate may have hundreds.
const NAMES_SHOWN: usize = 10;

/// A refused certificate, travelling through rustls as the cause of its error.
#[derive(Debug)]
pub(super) struct Refusal(String);

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Refusal {
    pub(super) fn of_server(
        reason: &CertificateError,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        origin: &str,
    ) -> Self {
        match Certificate::parse(leaf) {
            Ok(parsed) => Self(describe(reason, &parsed, intermediates, name, origin)),
            Err(error) => Self(format!("its certificate cannot be read: {error}")),
        }
    }
}

fn describe(
    reason: &CertificateError,
    leaf: &Certificate<'_>,
    intermediates: &[CertificateDer<'_>],
    name: &ServerName<'_>,
    origin: &str,
) -> String {
    let subject = leaf.subject_text();
    match reason {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            describe_names(leaf, name, &subject)
        }
        CertificateError::UnknownIssuer => {
            let issuer = wanted_issuer(leaf, intermediates);
            let self_signed = if leaf.is_self_signed() {
                "is self-signed and"
            } else {
                "is signed by an authority that"
            };
            format!(
                "its certificate (subject {subject}) {self_signed} is not in {origin}; add the certificate of {issuer} to \
                 ssl.truststore.location, ssl.truststore.certificates or ssl.ca.location"
            )
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => format!(
            "its certificate (subject {subject}) or an issuer of it has expired; its own end is {}",
            format_seconds(leaf.not_after)
        ),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => format!(
            "its certificate (subject {subject}) is not valid before {}; compare the clocks of both machines",
            format_seconds(leaf.not_before)
        ),
        CertificateError::Revoked => format!("its certificate (subject {subject}) is revoked by ssl.crl.location"),
        CertificateError::UnknownRevocationStatus => format!(
            "ssl.crl.location has no list of {}, the issuer of its certificate (subject {subject})",
            leaf.issuer_text()
        ),
        CertificateError::ExpiredRevocationList | CertificateError::ExpiredRevocationListContext { .. } => {
            "the revocation list in ssl.crl.location has expired".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => format!(
            "its certificate (subject {subject}) is not for servers; create it with the extended key usage serverAuth"
        ),
        CertificateError::Other(other) => describe_other(&other.to_string(), &subject),
        _ if leaf.version < 3 => format!(
            "its certificate (subject {subject}) is X.509 v{}, and TLS needs v3; create it again with extensions",
            leaf.version
        ),
        other => format!(
            "its certificate (subject {subject}) was refused: {other}; RSA needs 2048 bits and a signature newer than SHA-1"
        ),
    }
}

fn describe_names(leaf: &Certificate<'_>, name: &ServerName<'_>, subject: &str) -> String {
    let host = name.to_str();
    let mut names: Vec<String> = leaf.alternative_names.iter().map(ToString::to_string).collect();
    if names.is_empty() {
        let common_name = if leaf.has_common_name() {
            ", and a common name does not count"
        } else {
            ""
        };
        return format!(
            "its certificate (subject {subject}) has no subject alternative name{common_name}; it needs one for {host}"
        );
    }
    let more = names.len().saturating_sub(NAMES_SHOWN);
    names.truncate(NAMES_SHOWN);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "its certificate (subject {subject}) is not for {host}, only for {}{more}; connect by one of these names (brokers: \
         advertised.listeners), or set ssl.endpoint.identification.algorithm to an empty value",
        names.join(", ")
    )
}

/// Causes that webpki has no name for in rustls.
fn describe_other(cause: &str, subject: &str) -> String {
    if cause.contains("CaUsedAsEndEntity") {
        return format!(
            "its certificate (subject {subject}) is that of a CA; use one that the CA has signed, or put exactly this \
             certificate into the trust store"
        );
    }
    if cause.contains("UnsupportedCertVersion") {
        return format!("its certificate (subject {subject}) is not X.509 v3; create it again with extensions");
    }
    format!("its certificate (subject {subject}) was refused: {cause}")
}

/// The issuer at the end of the chain that the server sent.
fn wanted_issuer(leaf: &Certificate<'_>, intermediates: &[CertificateDer<'_>]) -> String {
    let parsed: Vec<Certificate<'_>> = intermediates
        .iter()
        .filter_map(|certificate| Certificate::parse(certificate).ok())
        .collect();
    let mut last = leaf;
    // At most one step for each certificate, so that a circle ends.
    for _ in &parsed {
        let issuer = parsed.iter().find(|other| other.subject == last.issuer);
        match issuer {
            Some(issuer) if !last.is_self_signed() => last = issuer,
            _ => break,
        }
    }
    last.issuer_text()
}
