//! Assertions: JWTs by which a client authenticates at a token endpoint (RFC 7523).

use std::path::PathBuf;

use milena_security::{
    Secret,
    jwt::{self, Algorithm, SigningKey},
};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::{Map, Value};

use super::{TokenError, file::read_text};

/// Largest accepted key, assertion or template.
const FILE_BYTES_MAX: u64 = 256 << 10;

type JsonObject = Map<String, Value>;

/// The source of an assertion.
#[derive(Debug)]
pub(crate) enum Assertion {
    /// A file with a signed assertion, read for each request.
    File(PathBuf),
    /// Signed by the client for each request.
    Signed(Box<AssertionClaims>),
}

/// The settings of an assertion that the client signs, under `sasl.oauthbearer.assertion.*`.
#[derive(Debug)]
pub(crate) struct AssertionClaims {
    pub(crate) algorithm: Algorithm,
    /// Read for each assertion, so that a new key needs no restart.
    pub(crate) private_key: KeySource,
    pub(crate) passphrase: Option<Secret>,
    pub(crate) template: Option<PathBuf>,
    pub(crate) issuer: Option<String>,
    pub(crate) subject: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) expires_after_seconds: i64,
    pub(crate) valid_before_seconds: i64,
    pub(crate) has_id: bool,
}

#[derive(Debug)]
pub(crate) enum KeySource {
    File(PathBuf),
    /// PEM in the configuration.
    Text(Secret),
}

impl Assertion {
    /// The assertion for a request at this time.
    pub(super) fn create(&self, now_ms: i64) -> Result<Secret, TokenError> {
        match self {
            Self::File(path) => {
                let text = read_text(path, FILE_BYTES_MAX)?;
                Ok(Secret::from(text.expose().trim()))
            }
            Self::Signed(claims) => claims.sign(now_ms),
        }
    }
}

impl AssertionClaims {
    fn sign(&self, now_ms: i64) -> Result<Secret, TokenError> {
        let refused = |error: jwt::JwtError| TokenError::Refused(format!("cannot sign an assertion: {error}"));
        let pem = match &self.private_key {
            KeySource::File(path) => read_text(path, FILE_BYTES_MAX)?,
            KeySource::Text(pem) => pem.clone(),
        };
        let key = SigningKey::from_pem(&pem, self.passphrase.as_ref()).map_err(refused)?;
        let (header, template) = self.read_template()?;
        let claims = self.claims(template, now_ms)?;
        jwt::sign(self.algorithm, &key, &header, &claims).map_err(refused)
    }

    /// The claims of the template, those of the configuration, and the times.
    fn claims(&self, mut claims: JsonObject, now_ms: i64) -> Result<JsonObject, TokenError> {
        let configured = [("iss", &self.issuer), ("sub", &self.subject), ("aud", &self.audience)];
        for (name, value) in configured {
            if let Some(value) = value {
                claims.insert(name.to_owned(), Value::from(value.as_str()));
            }
        }
        let now = now_ms.div_euclid(1_000);
        let times = [
            ("iat", now),
            ("exp", now.saturating_add(self.expires_after_seconds)),
            ("nbf", now.saturating_sub(self.valid_before_seconds)),
        ];
        for (name, seconds) in times {
            claims.insert(name.to_owned(), Value::from(seconds));
        }
        if self.has_id {
            claims.insert("jti".to_owned(), Value::from(random_id()?));
        }
        Ok(claims)
    }

    /// The objects `header` and `payload` of the template file.
    fn read_template(&self) -> Result<(JsonObject, JsonObject), TokenError> {
        let Some(path) = &self.template else {
            return Ok((Map::new(), Map::new()));
        };
        let text = read_text(path, FILE_BYTES_MAX)?;
        let problem = |why: &str| TokenError::Refused(format!("{} is not a template: {why}", path.display()));
        // The error of the parser may quote the text.
        let parsed = serde_json::from_str(text.expose()).map_err(|_| problem("it is not JSON"))?;
        let Value::Object(mut template) = parsed else {
            return Err(problem("it is not a JSON object"));
        };
        let mut part = |name: &str| match template.remove(name) {
            None => Ok(Map::new()),
            Some(Value::Object(part)) => Ok(part),
            Some(_) => Err(problem("`header` and `payload` must be objects")),
        };
        Ok((part("header")?, part("payload")?))
    }
}

/// A random UUID.
fn random_id() -> Result<String, TokenError> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| TokenError::Unavailable("the system has no random numbers".to_owned()))?;
    let number = u128::from_be_bytes(bytes);
    // Version 4 of RFC 9562: random, with its two marks.
    let number = number & !(0xf << 76) | (0x4 << 76);
    let number = number & !(0x3 << 62) | (0x2 << 62);
    let hex = format!("{number:032x}");
    let (a, rest) = hex.split_at(8);
    let (b, rest) = rest.split_at(4);
    let (c, rest) = rest.split_at(4);
    let (d, e) = rest.split_at(4);
    Ok(format!("{a}-{b}-{c}-{d}-{e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> AssertionClaims {
        AssertionClaims {
            algorithm: Algorithm::Rs256,
            private_key: KeySource::File("/none".into()),
            passphrase: None,
            template: None,
            issuer: Some("me".to_owned()),
            subject: None,
            audience: Some("you".to_owned()),
            expires_after_seconds: 300,
            valid_before_seconds: 60,
            has_id: true,
        }
    }

    #[test]
    fn configured_claims_win_over_the_template() {
        let template = Map::from_iter([
            ("iss".to_owned(), Value::from("template")),
            ("team".to_owned(), Value::from("blue")),
        ]);
        let mut made = claims().claims(template, 1_000_999).unwrap();
        let id = made.remove("jti").unwrap();
        let id = id.as_str().unwrap();
        assert_eq!((id.len(), id.as_bytes()[14], id.matches('-').count()), (36, b'4', 4));
        assert_eq!(
            Value::Object(made),
            serde_json::json!({"iss": "me", "aud": "you", "team": "blue", "iat": 1000, "exp": 1300, "nbf": 940})
        );
    }

    #[test]
    fn a_template_has_a_header_and_a_payload() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("template.json");
        std::fs::write(&path, r#"{"header": {"kid": "7"}, "payload": {"a": 1}}"#).unwrap();
        let with_template = AssertionClaims {
            template: Some(path.clone()),
            ..claims()
        };
        let (header, payload) = with_template.read_template().unwrap();
        assert_eq!((header.len(), payload.len()), (1, 1));
        std::fs::write(&path, "secret").unwrap();
        let error = with_template.read_template().unwrap_err().to_string();
        assert!(error.ends_with("is not a template: it is not JSON"), "{error}");
    }
}
