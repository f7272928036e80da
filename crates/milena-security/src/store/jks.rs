//! Java's own key stores, the default format until Java 9.
//!
//! A store is a list of entries, followed by a digest of password and list. Private keys are hidden by a key stream of
//! SHA-1 digests; certificates are readable without a password.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::{StoreError, identity::Identity};
use crate::{
    Secret,
    x509::der::{self, Reader},
};

const DIGEST_BYTES: usize = 20;
/// Java's salt of the digest over a whole store.
const WHITENER: &[u8] = b"Mighty Aphrodite";
/// 1.3.6.1.4.1.42.2.17.1.1, the key stream.
const KEY_STREAM: &[u8] = &[0x2b, 6, 1, 4, 1, 0x2a, 2, 0x11, 1, 1];

enum Entry<'a> {
    Key {
        protected: &'a [u8],
        chain: Vec<CertificateDer<'static>>,
    },
    Trusted(CertificateDer<'static>),
}

pub(super) fn read_identity(
    bytes: &[u8],
    password: &Secret,
    key_password: Option<&Secret>,
) -> Result<Identity, StoreError> {
    for entry in parse(bytes, Some(password))? {
        if let Entry::Key { protected, chain } = entry {
            let plain = recover(protected, key_password.unwrap_or(password))?;
            let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(plain.as_slice()));
            return Identity::from_parts(chain, &key);
        }
    }
    Err(StoreError::NoKey)
}

/// The certificates that Java trusts: the trusted entries, and the certificates of private keys.
pub(super) fn read_trusted(
    bytes: &[u8],
    password: Option<&Secret>,
) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let trusted = parse(bytes, password)?.into_iter().filter_map(|entry| match entry {
        Entry::Trusted(certificate) => Some(certificate),
        Entry::Key { chain, .. } => chain.into_iter().next(),
    });
    Ok(trusted.collect())
}

fn parse<'a>(bytes: &'a [u8], password: Option<&Secret>) -> Result<Vec<Entry<'a>>, StoreError> {
    let (body, digest) = bytes
        .split_at_checked(bytes.len().saturating_sub(DIGEST_BYTES))
        .ok_or_else(truncated)?;
    if let Some(password) = password {
        let expected = sha1(&[&utf16(password), WHITENER, body]);
        if !bool::from(expected.as_ref().ct_eq(digest)) {
            return Err(StoreError::Password);
        }
    }
    let mut input = Input { rest: body };
    input.u32()?;
    let version = input.u32()?;
    if !matches!(version, 1 | 2) {
        return Err(StoreError::Damaged(format!("unknown version {version} of JKS")));
    }
    let count = input.u32()?;
    // Every entry has bytes, so that a wrong count ends the loop with an error.
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(input.entry(version)?);
    }
    Ok(entries)
}

struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], StoreError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, StoreError> {
        let bytes = <[u8; 4]>::try_from(self.take(4)?).map_err(|_| truncated())?;
        Ok(u32::from_be_bytes(bytes))
    }

    /// Bytes after their length.
    fn bytes(&mut self) -> Result<&'a [u8], StoreError> {
        let length = usize::try_from(self.u32()?).map_err(|_| truncated())?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a [u8], StoreError> {
        let length = <[u8; 2]>::try_from(self.take(2)?).map_err(|_| truncated())?;
        self.take(usize::from(u16::from_be_bytes(length)))
    }

    fn entry(&mut self, version: u32) -> Result<Entry<'a>, StoreError> {
        let kind = self.u32()?;
        // Alias and time of creation.
        self.text()?;
        self.take(8)?;
        match kind {
            1 => {
                let protected = self.bytes()?;
                let count = self.u32()?;
                let mut chain = Vec::new();
                for _ in 0..count {
                    chain.push(self.certificate(version)?);
                }
                Ok(Entry::Key { protected, chain })
            }
            2 => Ok(Entry::Trusted(self.certificate(version)?)),
            other => Err(StoreError::Damaged(format!("unknown kind {other} of an entry"))),
        }
    }

    fn certificate(&mut self, version: u32) -> Result<CertificateDer<'static>, StoreError> {
        if version == 2 {
            let kind = self.text()?;
            if kind != b"X.509" {
                return Err(StoreError::Damaged("a certificate is not X.509".to_owned()));
            }
        }
        Ok(CertificateDer::from(self.bytes()?.to_vec()))
    }
}

/// Recovers a private key: salt, hidden key, and a digest of the key.
fn recover(protected: &[u8], password: &Secret) -> Result<Zeroizing<Vec<u8>>, StoreError> {
    let data = protected_data(protected)?;
    let (salt, rest) = data.split_at_checked(DIGEST_BYTES).ok_or_else(truncated)?;
    let (hidden, check) = rest
        .split_at_checked(rest.len().saturating_sub(DIGEST_BYTES))
        .ok_or_else(truncated)?;
    let password = utf16(password);
    let mut plain = Zeroizing::new(Vec::with_capacity(hidden.len()));
    let mut previous = salt.to_vec();
    for chunk in hidden.chunks(DIGEST_BYTES) {
        previous = sha1(&[&password, &previous]).as_ref().to_vec();
        plain.extend(chunk.iter().zip(&previous).map(|(hidden, key)| hidden ^ key));
    }
    let expected = sha1(&[&password, &plain]);
    if !bool::from(expected.as_ref().ct_eq(check)) {
        return Err(StoreError::Key(
            "cannot be decrypted: ssl.key.password is wrong".to_owned(),
        ));
    }
    Ok(plain)
}

fn protected_data(protected: &[u8]) -> Result<&[u8], StoreError> {
    let read = || {
        let mut info = Reader::new(protected).sequence()?;
        let algorithm = info.sequence()?.expect(der::OBJECT_IDENTIFIER)?.value;
        Ok::<_, der::DerError>((algorithm, info.expect(der::OCTET_STRING)?.value))
    };
    let (algorithm, data) = read().map_err(|error| StoreError::Damaged(error.to_string()))?;
    if algorithm != KEY_STREAM {
        return Err(StoreError::Key(
            "has a protection that is not that of JKS; convert the store: keytool -importkeystore -srckeystore FILE -destkeystore \
             NEW.p12 -deststoretype PKCS12"
                .to_owned(),
        ));
    }
    Ok(data)
}

/// Passwords are digested as UTF-16, big end first.
fn utf16(password: &Secret) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.expose().encode_utf16().flat_map(u16::to_be_bytes).collect())
}

fn sha1(parts: &[&[u8]]) -> ring::digest::Digest {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for part in parts {
        context.update(part);
    }
    context.finish()
}

fn truncated() -> StoreError {
    StoreError::Damaged("it ends too early".to_owned())
}
