//! Containers of keys and certificates: PEM, PKCS#12 and Java's key stores.
//!
//! The format is recognised by the content. Nothing here knows where the bytes come from.

mod identity;
mod jks;
mod pem;
mod pkcs12;
mod private_key;
#[cfg(test)]
mod tests;

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use crate::{Secret, x509::der::Reader};

pub(crate) use identity::Identity;

/// Bytes that are no usable container, or not with this password.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum StoreError {
    #[error("is neither PEM, PKCS#12 nor JKS")]
    Unrecognised,
    #[error("is empty")]
    Empty,
    #[error(
        "is a JCEKS key store, which is not supported; convert it: keytool -importkeystore -srckeystore FILE -srcstoretype JCEKS \
         -destkeystore NEW.p12 -deststoretype PKCS12"
    )]
    Jceks,
    #[error("has a wrong password, or is damaged")]
    Password,
    #[error("needs a password")]
    PasswordMissing,
    #[error("SSL key store password cannot be specified with PEM format, only key password may be specified.")]
    PasswordForPem,
    #[error("SSL trust store password cannot be specified for PEM format.")]
    PasswordForTrustedPem,
    #[error("is damaged: {0}")]
    Damaged(String),
    #[error("contains no private key")]
    NoKey,
    #[error("contains {0} private keys, expected one")]
    ManyKeys(usize),
    #[error("contains no certificate")]
    NoCertificate,
    #[error("contains no certificate revocation list")]
    NoRevocationList,
    #[error("the private key {0}")]
    Key(String),
    #[error("the private key belongs to none of the certificates; the first is that of {subject}")]
    Mismatch { subject: String },
    #[error("has a certificate that cannot be read: {0}")]
    Certificate(String),
}

/// Formats, recognised by the first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Pem,
    Pkcs12,
    Jks,
    Jceks,
    /// One certificate without any container.
    Certificate,
}

fn recognise(bytes: &[u8]) -> Result<Format, StoreError> {
    match bytes {
        [] => Err(StoreError::Empty),
        [0xfe, 0xed, 0xfe, 0xed, ..] => Ok(Format::Jks),
        [0xce, 0xce, 0xce, 0xce, ..] => Ok(Format::Jceks),
        // A PFX begins with its version, a certificate with a sequence.
        [0x30, ..] => match Reader::new(bytes).sequence().ok().and_then(|body| body.peek()) {
            Some(0x02) => Ok(Format::Pkcs12),
            Some(0x30) => Ok(Format::Certificate),
            _ => Err(StoreError::Unrecognised),
        },
        _ if pem::is_pem(bytes) => Ok(Format::Pem),
        _ => Err(StoreError::Unrecognised),
    }
}

/// Reads a key store: a private key with its certificate chain.
pub(crate) fn read_identity(
    bytes: &[u8],
    store_password: Option<&Secret>,
    key_password: Option<&Secret>,
) -> Result<Identity, StoreError> {
    match recognise(bytes)? {
        Format::Pem if store_password.is_some() => Err(StoreError::PasswordForPem),
        Format::Pem => {
            let blocks = pem::parse(bytes)?;
            Identity::from_pem(&blocks, &blocks, key_password)
        }
        Format::Pkcs12 => {
            pkcs12::read_identity(bytes, store_password.ok_or(StoreError::PasswordMissing)?, key_password)
        }
        Format::Jks => jks::read_identity(bytes, store_password.ok_or(StoreError::PasswordMissing)?, key_password),
        Format::Jceks => Err(StoreError::Jceks),
        Format::Certificate => Err(StoreError::NoKey),
    }
}

/// Reads a certificate chain and its private key from two PEM texts.
pub(crate) fn read_pem_pair(chain: &[u8], key: &[u8], key_password: Option<&Secret>) -> Result<Identity, PairError> {
    let chain = pem::parse(chain).map_err(PairError::Chain)?;
    let key = pem::parse(key).map_err(PairError::Key)?;
    pem::certificates(&chain).map_err(PairError::Chain)?;
    Identity::from_pem(&chain, &key, key_password).map_err(PairError::Key)
}

/// The half of a pair that is unusable.
pub(crate) enum PairError {
    Chain(StoreError),
    Key(StoreError),
}

/// Reads the certificates to trust.
pub(crate) fn read_trusted(
    bytes: &[u8],
    password: Option<&Secret>,
) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let certificates = match recognise(bytes)? {
        Format::Pem if password.is_some() => return Err(StoreError::PasswordForTrustedPem),
        Format::Pem => pem::certificates(&pem::parse(bytes)?)?,
        Format::Pkcs12 => pkcs12::read_trusted(bytes, password)?,
        Format::Jks => jks::read_trusted(bytes, password)?,
        Format::Jceks => return Err(StoreError::Jceks),
        Format::Certificate => vec![CertificateDer::from(bytes.to_vec())],
    };
    if certificates.is_empty() {
        return Err(StoreError::NoCertificate);
    }
    Ok(certificates)
}

/// Reads the lists of revoked certificates in a file: PEM, or one list in DER.
pub(crate) fn read_revocation_lists(bytes: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, StoreError> {
    let lists = match bytes {
        [] => return Err(StoreError::Empty),
        [0x30, ..] => vec![CertificateRevocationListDer::from(bytes.to_vec())],
        _ => pem::revocation_lists(&pem::parse(bytes)?),
    };
    if lists.is_empty() {
        return Err(StoreError::NoRevocationList);
    }
    Ok(lists)
}

/// Reads one private key in PEM.
pub(crate) fn read_key(pem: &[u8], password: Option<&Secret>) -> Result<PrivateKeyDer<'static>, StoreError> {
    private_key::from_pem(&pem::parse(pem)?, password)
}
