//! The three parts of a token.

use std::fmt;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
    prelude::BASE64_URL_SAFE_NO_PAD,
};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::{Algorithm, JwtError};

/// Larger than any token in use; the broker bounds the whole message anyway.
const TOKEN_BYTES_MAX: usize = 256 << 10;
/// As long an id as Kafka looks up.
const KEY_ID_CHARS_MAX: usize = 1000;

const INDIFFERENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
/// Kafka's unsecured tokens are read with the ordinary alphabet, and written with both.
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, INDIFFERENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, INDIFFERENT);

pub(super) struct Token<'a> {
    header: Map<String, Value>,
    claims: &'a str,
    /// Header and claims as they were signed.
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Token<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, JwtError> {
        let (signed, header, claims, signature) = split(token)?;
        if header.is_empty() || claims.is_empty() || signature.is_empty() {
            return Err(malformed("expected three sections (header, payload, and signature)"));
        }
        let header = object(&decode(header)?, "header")?;
        // Extensions that a reader must understand; this one knows none.
        if header.contains_key("crit") {
            return Err(malformed("its header has critical extensions"));
        }
        Ok(Self {
            header,
            claims,
            signed,
            signature: decode(signature)?,
        })
    }

    /// The claims of a token whose algorithm is `none`.
    pub(super) fn parse_unsecured(token: &str) -> Result<Map<String, Value>, JwtError> {
        let (_, header, claims, signature) = split(token)?;
        let decode = |text: &str| STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text));
        let decode = |text: &str| decode(text).map_err(|_| malformed("a section is not base64"));
        let header = object(&decode(header)?, "header")?;
        match header.get("alg").and_then(Value::as_str) {
            Some("none") if signature.is_empty() => object(&decode(claims)?, "payload"),
            Some("none") => Err(malformed("an unsecured token has a signature")),
            Some(other) => Err(JwtError::Algorithm(shown(other))),
            None => Err(malformed("its header has no algorithm")),
        }
    }

    pub(super) fn algorithm(&self) -> Result<Algorithm, JwtError> {
        let name = self.header.get("alg").and_then(Value::as_str);
        let name = name.ok_or_else(|| malformed("its header has no algorithm"))?;
        Algorithm::from_name(name).ok_or_else(|| JwtError::Algorithm(shown(name)))
    }

    pub(super) fn key_id(&self) -> Result<Option<&str>, JwtError> {
        match self.header.get("kid") {
            None => Ok(None),
            Some(Value::String(id)) if id.chars().count() <= KEY_ID_CHARS_MAX => Ok(Some(id)),
            Some(Value::String(_)) => Err(malformed("the id of its key is too long")),
            Some(_) => Err(malformed("the id of its key is not a text")),
        }
    }

    pub(super) fn claims(&self) -> Result<Map<String, Value>, JwtError> {
        object(&decode(self.claims)?, "payload")
    }

    pub(super) fn signed_part(&self) -> &[u8] {
        self.signed.as_bytes()
    }

    pub(super) fn signature(&self) -> &[u8] {
        &self.signature
    }
}

/// Header and claims together, and the three sections.
fn split(token: &str) -> Result<(&str, &str, &str, &str), JwtError> {
    let token = token.trim();
    if token.len() > TOKEN_BYTES_MAX {
        return Err(malformed("it is too long"));
    }
    let sections = token.rsplit_once('.').and_then(|(signed, signature)| {
        let (header, claims) = signed.split_once('.')?;
        (!claims.contains('.')).then_some((signed, header, claims, signature))
    });
    sections.ok_or_else(|| malformed("expected three sections (header, payload, and signature)"))
}

fn decode(section: &str) -> Result<Vec<u8>, JwtError> {
    // Padding is not allowed, so that a token has only one form.
    BASE64_URL_SAFE_NO_PAD
        .decode(section)
        .map_err(|_| malformed("a section is not base64url"))
}

fn object(json: &[u8], section: &str) -> Result<Map<String, Value>, JwtError> {
    let mut parser = serde_json::Deserializer::from_slice(json);
    let object = parser.deserialize_map(UniqueNames).and_then(|object| {
        parser.end()?;
        Ok(object)
    });
    object.map_err(|_| malformed(&format!("its {section} is not a JSON object with unique names")))
}

/// An object whose names are unique: of two claims with one name, every reader could take another.
struct UniqueNames;

impl<'de> Visitor<'de> for UniqueNames {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, value)) = entries.next_entry::<String, Value>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name occurs twice"));
            }
        }
        Ok(object)
    }
}

fn malformed(problem: &str) -> JwtError {
    JwtError::Malformed(problem.to_owned())
}

/// A name from a token, cut so that it fits into a message.
fn shown(name: &str) -> String {
    name.chars().take(20).collect()
}
