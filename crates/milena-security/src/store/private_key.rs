//! Private keys: PKCS#8 with or without a password, PKCS#1 and SEC 1.

use pkcs8::{
    EncryptedPrivateKeyInfoRef,
    pkcs5::{EncryptionScheme, pbes2::Kdf},
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use super::{StoreError, pem::Block};
use crate::Secret;

/// A private key in PKCS#8.
type Pkcs8 = PrivatePkcs8KeyDer<'static>;

/// Work that a password may cost: more is an attack or a mistake.
const ITERATIONS_MAX: u32 = 10_000_000;
const SCRYPT_BYTES_MAX: u64 = 256 << 20;

const CONVERT: &str = "convert it: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD.pem -out NEW.pem";

/// The only private key among the blocks.
pub(super) fn from_pem(blocks: &[Block], password: Option<&Secret>) -> Result<PrivateKeyDer<'static>, StoreError> {
    let is_key = |block: &&Block| block.label.ends_with("PRIVATE KEY");
    let mut keys = blocks.iter().filter(is_key);
    let Some(block) = keys.next() else {
        return Err(StoreError::NoKey);
    };
    if keys.next().is_some() {
        return Err(StoreError::ManyKeys(blocks.iter().filter(is_key).count()));
    }
    if block.has_old_encryption {
        return Err(key_error(format!(
            "has OpenSSL's old encryption (Proc-Type: 4,ENCRYPTED), which is not supported; {CONVERT}"
        )));
    }
    let content = block.content.to_vec();
    match block.label.as_str() {
        "PRIVATE KEY" => Ok(PrivatePkcs8KeyDer::from(content).into()),
        "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(content).into()),
        "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(content).into()),
        "ENCRYPTED PRIVATE KEY" => {
            let password = password.ok_or_else(|| key_error("is encrypted; set ssl.key.password".to_owned()))?;
            Ok(decrypt(&block.content, password)?.into())
        }
        other => Err(key_error(format!(
            "has the unsupported format `{other}`; supported are PRIVATE KEY, ENCRYPTED PRIVATE KEY, RSA PRIVATE KEY and EC \
             PRIVATE KEY"
        ))),
    }
}

/// Decrypts a key as of PKCS#8.
fn decrypt(content: &[u8], password: &Secret) -> Result<Pkcs8, StoreError> {
    let info = EncryptedPrivateKeyInfoRef::try_from(content).map_err(|_| {
        // The usual reason: an algorithm from before PBES2.
        key_error(format!("has an encryption that is damaged or not supported; {CONVERT}"))
    })?;
    let EncryptionScheme::Pbes2(parameters) = &info.encryption_algorithm else {
        return Err(key_error(format!(
            "has an encryption as of PKCS#5 v1.5 or PKCS#12, which is not supported; {CONVERT}"
        )));
    };
    let is_excessive = match &parameters.kdf {
        Kdf::Pbkdf2(pbkdf2) => pbkdf2.iteration_count > ITERATIONS_MAX,
        Kdf::Scrypt(scrypt) => {
            let bytes = scrypt.cost_parameter.saturating_mul(u64::from(scrypt.block_size));
            bytes.saturating_mul(128) > SCRYPT_BYTES_MAX || scrypt.parallelization > 16
        }
        _ => false,
    };
    if is_excessive {
        return Err(key_error(
            "has an encryption that needs too much time or memory".to_owned(),
        ));
    }
    match info.decrypt(password.expose()) {
        Ok(document) => Ok(PrivatePkcs8KeyDer::from(document.as_bytes().to_vec())),
        Err(_) => Err(key_error(format!(
            "cannot be decrypted: ssl.key.password is wrong, or its encryption is not supported; {CONVERT}"
        ))),
    }
}

fn key_error(problem: String) -> StoreError {
    StoreError::Key(problem)
}
