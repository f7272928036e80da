//! Public keys of an issuer.

use std::fmt;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Map, Value};

use super::{Algorithm, JwtError};

/// A key set of a large provider has ten keys in twenty kilobytes.
const JSON_BYTES_MAX: usize = 1 << 20;
const KEYS_MAX: usize = 1000;
/// Signatures that are tried for a token that names no key.
const ATTEMPTS_MAX: usize = 16;

/// Public keys of an issuer (RFC 7517).
#[derive(Clone, Debug, Default)]
pub struct Jwks {
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    id: Option<String>,
    /// The only algorithm it may be used with, if the set names one.
    algorithm: Option<Algorithm>,
    public: Public,
}

#[derive(Clone)]
enum Public {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// An uncompressed point.
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl Jwks {
    /// Parses a key set. Keys of unknown kinds are skipped; a set without any usable key is an error.
    pub fn parse(json: &[u8]) -> Result<Self, JwtError> {
        let error = |problem: &str| JwtError::Keys(problem.to_owned());
        if json.len() > JSON_BYTES_MAX {
            return Err(error("it has more than 1 MiB"));
        }
        let set: Map<String, Value> = serde_json::from_slice(json).map_err(|_| error("it is not a JSON object"))?;
        let Some(Value::Array(all)) = set.get("keys") else {
            return Err(error("it has no list `keys`"));
        };
        if all.len() > KEYS_MAX {
            return Err(error("it has too many keys"));
        }
        let keys: Vec<Key> = all.iter().filter_map(Key::parse).collect();
        if keys.is_empty() {
            return Err(error(
                "it has no usable key; supported are RSA from 2048 bits, EC on P-256 and P-384, and Ed25519",
            ));
        }
        Ok(Self { keys })
    }

    /// Whether a key has this id. If not, the set may be out of date.
    pub fn has_key(&self, id: &str) -> bool {
        self.keys.iter().any(|key| key.id.as_deref() == Some(id))
    }

    /// Number of usable keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(super) fn verify(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), JwtError> {
        if let Some(id) = id
            && !self.has_key(id)
        {
            return Err(JwtError::UnknownKey { id: id.to_owned() });
        }
        let candidates = self.keys.iter().filter(|key| {
            let has_id = id.is_none() || key.id.as_deref() == id;
            has_id && key.algorithm.is_none_or(|only| only == algorithm)
        });
        let mut candidates = candidates.take(ATTEMPTS_MAX);
        if candidates.any(|key| key.public.verifies(algorithm, message, signature)) {
            Ok(())
        } else {
            Err(JwtError::Signature)
        }
    }
}

impl Key {
    fn parse(value: &Value) -> Option<Self> {
        let key = value.as_object()?;
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        if text("use").is_some_and(|usage| usage != "sig") {
            return None;
        }
        let algorithm = match text("alg") {
            Some(name) => Some(Algorithm::from_name(name)?),
            None => None,
        };
        let bytes = |name: &str| BASE64_URL_SAFE_NO_PAD.decode(text(name)?.trim_end_matches('=')).ok();
        let public = match (text("kty")?, text("crv")) {
            ("RSA", _) => Public::rsa(&bytes("n")?, &bytes("e")?)?,
            ("EC", Some("P-256")) => Public::P256(point(&bytes("x")?, &bytes("y")?, 32)?),
            ("EC", Some("P-384")) => Public::P384(point(&bytes("x")?, &bytes("y")?, 48)?),
            ("OKP", Some("Ed25519")) => Public::Ed25519(bytes("x").filter(|key| key.len() == 32)?),
            _ => return None,
        };
        Some(Self {
            id: text("kid").map(str::to_owned),
            algorithm,
            public,
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.public {
            Public::Rsa { .. } => "RSA",
            Public::P256(_) => "P-256",
            Public::P384(_) => "P-384",
            Public::Ed25519(_) => "Ed25519",
        };
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("kind", &kind)
            .finish_non_exhaustive()
    }
}

impl Public {
    fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        // Some issuers write a leading zero, which ring refuses.
        let strip = |number: &[u8]| {
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            number.get(zeros..).map(<[u8]>::to_vec)
        };
        let (modulus, exponent) = (strip(modulus)?, strip(exponent)?);
        (256..=1024)
            .contains(&modulus.len())
            .then_some(Self::Rsa { modulus, exponent })
    }

    /// Whether the signature is right and its algorithm is one of this key.
    fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match (self, algorithm) {
            (Self::Rsa { modulus, exponent }, algorithm) => {
                let components = RsaPublicKeyComponents {
                    n: modulus,
                    e: exponent,
                };
                rsa_parameters(algorithm)
                    .is_some_and(|parameters| components.verify(parameters, message, signature).is_ok())
            }
            (Self::P256(point), Algorithm::Es256) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .is_ok(),
            (Self::P384(point), Algorithm::Es384) => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                .verify(message, signature)
                .is_ok(),
            (Self::Ed25519(key), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

fn rsa_parameters(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn point(x: &[u8], y: &[u8], bytes: usize) -> Option<Vec<u8>> {
    (x.len() == bytes && y.len() == bytes).then(|| [&[4][..], x, y].concat())
}
