//! Verification of certificates: webpki's rules, with the exceptions that Kafka's settings and Java's habits need.

use std::{collections::HashSet, fmt, sync::Arc};

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime},
    server::{
        ParsedCertificate, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};

use super::{ClientAuth, TlsError, material::Anchors, refusal::Refusal};
use crate::x509::{Certificate, format_seconds};

/// Trust in certificates that are anchors themselves.
///
/// Java trusts a self-signed certificate that is in the trust store; webpki does not, because it is no CA or because it is
/// one. Its time is checked nevertheless.
struct Pinned(HashSet<CertificateDer<'static>>);

impl Pinned {
    fn contains(&self, certificate: &CertificateDer<'_>) -> bool {
        self.0.contains(certificate)
    }

    fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
        let parsed = Certificate::parse(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if seconds < parsed.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if seconds > parsed.not_after {
            return Err(CertificateError::Expired.into());
        }
        Ok(())
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} certificates", self.0.len())
    }
}

/// A client's judgement of a server's certificate.
#[derive(Debug)]
pub(super) struct ServerVerifier {
    webpki: Arc<WebPkiServerVerifier>,
    pinned: Pinned,
    verify_host: bool,
    /// For messages: where the trusted certificates come from.
    origin: String,
}

impl ServerVerifier {
    pub(super) fn new(
        provider: &Arc<CryptoProvider>,
        anchors: Anchors,
        revocation_lists: Vec<CertificateRevocationListDer<'static>>,
        verify_host: bool,
    ) -> Result<Self, TlsError> {
        let builder = WebPkiServerVerifier::builder_with_provider(anchors.roots.into(), Arc::clone(provider));
        let builder = if revocation_lists.is_empty() {
            builder
        } else {
            // As OpenSSL: the peer's own certificate must be covered by a list that has not expired.
            builder
                .with_crls(revocation_lists)
                .only_check_end_entity_revocation()
                .enforce_revocation_expiration()
        };
        let webpki = builder.build().map_err(|error| TlsError::Rustls(error.to_string()))?;
        Ok(Self {
            webpki,
            pinned: Pinned(anchors.certificates.into_iter().collect()),
            verify_host,
            origin: anchors.origin,
        })
    }

    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let result = if self.pinned.contains(leaf) {
            Pinned::check_time(leaf, now).and_then(|()| verify_server_name(&ParsedCertificate::try_from(leaf)?, name))
        } else {
            let verified = self
                .webpki
                .verify_server_cert(leaf, intermediates, name, ocsp_response, now);
            verified.map(|_| ())
        };
        match result {
            // Chain and time come before the name, so that they are in order here.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.verify_host => Ok(()),
            other => other,
        }
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result = self.check(end_entity, intermediates, server_name, ocsp_response, now);
        result.map(|()| ServerCertVerified::assertion()).map_err(|error| {
            let Error::InvalidCertificate(reason) = &error else {
                return error;
            };
            let refusal = Refusal::of_server(reason, end_entity, intermediates, server_name, &self.origin);
            Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(refusal))))
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

/// Trust in any server, for `enable.ssl.certificate.verification=false`.
///
/// The server must still prove that it has the key of its certificate.
#[derive(Debug)]
pub(super) struct AnyServer(pub(super) WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// A server's judgement of a client's certificate.
///
/// Errors stay those of webpki, because they decide which alert the client gets; the details are logged.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    webpki: Arc<dyn ClientCertVerifier>,
    pinned: Pinned,
}

impl ClientVerifier {
    pub(super) fn new(
        provider: &Arc<CryptoProvider>,
        anchors: Anchors,
        revocation_lists: Vec<CertificateRevocationListDer<'static>>,
        client_auth: ClientAuth,
    ) -> Result<Self, TlsError> {
        let mut builder = WebPkiClientVerifier::builder_with_provider(anchors.roots.into(), Arc::clone(provider));
        if !revocation_lists.is_empty() {
            builder = builder
                .with_crls(revocation_lists)
                .only_check_end_entity_revocation()
                .enforce_revocation_expiration();
        }
        if client_auth != ClientAuth::Required {
            builder = builder.allow_unauthenticated();
        }
        Ok(Self {
            webpki: builder.build().map_err(|error| TlsError::Rustls(error.to_string()))?,
            pinned: Pinned(anchors.certificates.into_iter().collect()),
        })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.webpki.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.webpki.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.webpki.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let result = if self.pinned.contains(end_entity) {
            Pinned::check_time(end_entity, now).map(|()| ClientCertVerified::assertion())
        } else {
            self.webpki.verify_client_cert(end_entity, intermediates, now)
        };
        if let Err(error) = &result {
            log_refused_client(error, end_entity);
        }
        result
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn log_refused_client(error: &Error, certificate: &CertificateDer<'_>) {
    match Certificate::parse(certificate) {
        Ok(parsed) => tracing::info!(
            event = "client_certificate_refused",
            subject = parsed.subject_text(),
            issuer = parsed.issuer_text(),
            not_after = format_seconds(parsed.not_after),
            %error,
            "a client's certificate was refused: {error}"
        ),
        Err(problem) => tracing::info!(
            event = "client_certificate_refused",
            %error,
            "a client's certificate was refused: {error}; it is malformed: {problem}"
        ),
    }
}
