//! Signed tokens, for clients that log in to an issuer with a key.

use std::fmt;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::{Algorithm, JwtError};
use crate::{Secret, store};

/// A private key for signed assertions.
pub struct SigningKey {
    key: PrivateKeyDer<'static>,
}

impl SigningKey {
    /// Reads a private key in PEM, encrypted or not.
    pub fn from_pem(pem: &Secret, password: Option<&Secret>) -> Result<Self, JwtError> {
        let key = store::read_key(pem.expose().as_bytes(), password);
        let key = key.map_err(|error| JwtError::SigningKey(error.to_string()))?;
        Ok(Self { key })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Signs claims, with [`Algorithm::Rs256`] or [`Algorithm::Es256`]. `header` has further fields, as `kid`.
pub fn sign(
    algorithm: Algorithm,
    key: &SigningKey,
    header: &Map<String, Value>,
    claims: &Map<String, Value>,
) -> Result<Secret, JwtError> {
    let mut header = header.clone();
    header.insert("alg".to_owned(), Value::from(algorithm.name()));
    header.entry("typ").or_insert_with(|| Value::from("JWT"));
    let encode = |map: Map<String, Value>| BASE64_URL_SAFE_NO_PAD.encode(Value::Object(map).to_string());
    let signed = Zeroizing::new(format!("{}.{}", encode(header), encode(claims.clone())));
    let signature = match algorithm {
        Algorithm::Rs256 => sign_rsa(&key.key, signed.as_bytes())?,
        Algorithm::Es256 => sign_ecdsa(&key.key, signed.as_bytes())?,
        other => return Err(JwtError::Algorithm(other.name().to_owned())),
    };
    Ok(Secret::from(format!(
        "{}.{}",
        signed.as_str(),
        BASE64_URL_SAFE_NO_PAD.encode(signature)
    )))
}

fn sign_rsa(key: &PrivateKeyDer<'_>, message: &[u8]) -> Result<Vec<u8>, JwtError> {
    let pair = match key {
        PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(wrong_key("RS256 needs an RSA key")),
    };
    let pair = pair.map_err(|_| wrong_key("RS256 needs an RSA key of at least 2048 bits"))?;
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
        .map_err(|_| wrong_key("signing failed"))?;
    Ok(signature)
}

fn sign_ecdsa(key: &PrivateKeyDer<'_>, message: &[u8]) -> Result<Vec<u8>, JwtError> {
    let random = SystemRandom::new();
    let pkcs8 = match key {
        PrivateKeyDer::Pkcs8(der) => Zeroizing::new(der.secret_pkcs8_der().to_vec()),
        PrivateKeyDer::Sec1(der) => wrap_p256(der.secret_sec1_der()),
        _ => return Err(wrong_key("ES256 needs an EC key")),
    };
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8, &random);
    let pair = pair.map_err(|_| wrong_key("ES256 needs an EC key on P-256"))?;
    let signature = pair.sign(&random, message).map_err(|_| wrong_key("signing failed"))?;
    Ok(signature.as_ref().to_vec())
}

/// A key on P-256 in PKCS#8, from its form in SEC 1.
fn wrap_p256(key: &[u8]) -> Zeroizing<Vec<u8>> {
    // Version 0; id-ecPublicKey, prime256v1.
    const PREFIX: &[u8] = &[
        0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
        0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
    ];
    let body = [PREFIX, &length(0x04, key.len()), key].concat();
    Zeroizing::new([&length(0x30, body.len())[..], &body].concat())
}

/// Tag and length of DER, for lengths below 64 KiB; a longer key is refused by its reader.
fn length(tag: u8, length: usize) -> Vec<u8> {
    let [.., high, low] = length.to_be_bytes();
    match length {
        0..=0x7f => vec![tag, low],
        0x80..=0xff => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    }
}

fn wrong_key(problem: &str) -> JwtError {
    JwtError::SigningKey(problem.to_owned())
}
