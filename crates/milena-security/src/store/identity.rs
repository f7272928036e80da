//! A private key with its certificate chain.

use std::{fmt, sync::Arc};

use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
    sign::{CertifiedKey, SigningKey},
};

use super::{
    StoreError,
    pem::{self, Block},
    private_key,
};
use crate::{Secret, x509::Certificate};

/// A private key and the certificates for it, the one of the key first.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) chain: Vec<CertificateDer<'static>>,
    pub(crate) key: Arc<dyn SigningKey>,
}

impl Identity {
    pub(super) fn from_pem(chain: &[Block], key: &[Block], password: Option<&Secret>) -> Result<Self, StoreError> {
        let key = private_key::from_pem(key, password)?;
        Self::from_parts(pem::certificates(chain)?, &key)
    }

    /// Puts the certificate of the key first and keeps the order of the others.
    pub(super) fn from_parts(
        mut chain: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'_>,
    ) -> Result<Self, StoreError> {
        let key = ring::sign::any_supported_type(key).map_err(|_| {
            StoreError::Key(
                "is damaged or of an unsupported kind; supported are RSA from 2048 bits, EC on P-256 and P-384, and Ed25519"
                    .to_owned(),
            )
        })?;
        for certificate in &chain {
            Certificate::parse(certificate).map_err(|error| StoreError::Certificate(error.to_string()))?;
        }
        let belongs = |certificate: &CertificateDer<'static>| {
            CertifiedKey::new(vec![certificate.clone()], Arc::clone(&key))
                .keys_match()
                .is_ok()
        };
        let Some(place) = chain.iter().position(belongs) else {
            return Err(Self::mismatch(&chain));
        };
        let leaf = chain.remove(place);
        chain.insert(0, leaf);
        Ok(Self { chain, key })
    }

    /// Like [`from_parts`](Self::from_parts), from certificates in any order: only the issuers of the key's certificate follow it.
    pub(super) fn from_unordered(
        certificates: Vec<CertificateDer<'static>>,
        key: &PrivateKeyDer<'_>,
    ) -> Result<Self, StoreError> {
        let Self { chain: mut rest, key } = Self::from_parts(certificates, key)?;
        let mut chain: Vec<CertificateDer<'static>> = rest.drain(..1).collect();
        while let Some(last) = chain.last().and_then(|last| Certificate::parse(last).ok()) {
            if last.is_self_signed() {
                break;
            }
            let is_issuer = |certificate: &CertificateDer<'_>| {
                Certificate::parse(certificate).is_ok_and(|parsed| parsed.subject == last.issuer)
            };
            let Some(place) = rest.iter().position(is_issuer) else {
                break;
            };
            let issuer = rest.remove(place);
            chain.push(issuer);
        }
        Ok(Self { chain, key })
    }

    fn mismatch(chain: &[CertificateDer<'_>]) -> StoreError {
        let Some(first) = chain.first() else {
            return StoreError::NoCertificate;
        };
        let old = chain
            .iter()
            .filter_map(|certificate| Certificate::parse(certificate).ok());
        if let Some(old) = old.into_iter().find(|parsed| parsed.version < 3) {
            return StoreError::Certificate(format!(
                "that of {} is X.509 v{}, and TLS needs v3; create it again with extensions",
                old.subject_text(),
                old.version
            ));
        }
        let subject = Certificate::parse(first).map_or_else(|_| String::new(), |parsed| parsed.subject_text());
        StoreError::Mismatch { subject }
    }

    pub(crate) fn certified(&self) -> CertifiedKey {
        CertifiedKey::new(self.chain.clone(), Arc::clone(&self.key))
    }

    /// The certificate of the key.
    pub(crate) fn leaf(&self) -> &[u8] {
        self.chain.first().map_or(&[], |leaf| leaf.as_ref())
    }
}

/// Only the subjects, never the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subjects = self.chain.iter().map(|certificate| {
            Certificate::parse(certificate).map_or_else(|error| error.to_string(), |parsed| parsed.subject_text())
        });
        f.debug_list().entries(subjects).finish()
    }
}
