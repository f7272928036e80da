//! PKCS#12 stores.

use p12_keystore::{CertificateBag, Pkcs12Archive, PrivateKeyBag, error::Error};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{StoreError, identity::Identity};
use crate::Secret;

pub(super) fn read_identity(
    bytes: &[u8],
    password: &Secret,
    key_password: Option<&Secret>,
) -> Result<Identity, StoreError> {
    let archive = open(bytes, password)?;
    if key_password.is_some_and(|key_password| key_password != password) {
        return Err(StoreError::Key(
            "has a password other than that of its PKCS#12 store, which is not supported; remove ssl.key.password, or give \
             both the same password"
                .to_owned(),
        ));
    }
    let key = archive.keys.first().ok_or(StoreError::NoKey)?;
    let der = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.key.as_der()));
    Identity::from_unordered(certificates_for(key, archive.certs.iter()), &der)
}

/// All certificates, those with the id of the key first.
fn certificates_for<'a>(
    key: &PrivateKeyBag,
    bags: impl Iterator<Item = &'a CertificateBag>,
) -> Vec<CertificateDer<'static>> {
    let id = key.local_key_id.as_ref().map(AsRef::as_ref);
    let (own, others): (Vec<_>, Vec<_>) = bags.partition(|bag| id.is_some() && bag.local_key_id.as_deref() == id);
    own.into_iter().chain(others).map(certificate).collect()
}

/// The certificates that Java trusts: those marked as trusted, and those of private keys.
///
/// OpenSSL marks none. Without keys and marks, all certificates are meant.
pub(super) fn read_trusted(
    bytes: &[u8],
    password: Option<&Secret>,
) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let archive = match password {
        Some(password) => open(bytes, password)?,
        // Stores without a password exist; those with one cannot be read, unlike JKS.
        None => open(bytes, &Secret::default()).map_err(|error| match error {
            StoreError::Password => StoreError::PasswordMissing,
            other => other,
        })?,
    };
    let is_bundle = archive.keys.is_empty() && !archive.certs.iter().any(|bag| bag.trusted);
    let trusted = |bag: &&CertificateBag| is_bundle || bag.trusted || bag.local_key_id.is_some();
    Ok(archive.certs.iter().filter(trusted).map(certificate).collect())
}

fn certificate(bag: &CertificateBag) -> CertificateDer<'static> {
    CertificateDer::from(bag.cert.as_der().to_vec())
}

fn open(bytes: &[u8], password: &Secret) -> Result<Pkcs12Archive, StoreError> {
    Pkcs12Archive::from_pkcs12(bytes, password.expose()).map_err(|error| match error {
        Error::MacError(_) | Error::UnpadError | Error::Pkcs5Error(_) => StoreError::Password,
        Error::UnsupportedEncryptionScheme | Error::UnsupportedMacAlgorithm => StoreError::Damaged(
            "its encryption is not supported; convert it: openssl pkcs12 -in OLD.p12 -nodes -out NEW.pem".to_owned(),
        ),
        other => StoreError::Damaged(other.to_string()),
    })
}
