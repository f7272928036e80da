//! Tokens without a signature, for development and tests.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};

use super::{Token, TokenFuture, TokenProvider};
use crate::io::wall_ms;

/// Claims of tokens that the client writes itself. Only a broker for tests accepts them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct UnsecuredLogin {
    pub(crate) principal_claim: String,
    pub(crate) scope_claim: String,
    pub(crate) lifetime_seconds: i64,
    /// Claims without `iat` and `exp`.
    pub(crate) claims: Map<String, Value>,
    pub(crate) extensions: BTreeMap<String, String>,
}

impl UnsecuredLogin {
    fn token_at(&self, now_ms: i64) -> Token {
        let lifetime_ms = self.lifetime_seconds.saturating_mul(1_000);
        let expires_at_ms = now_ms.saturating_add(lifetime_ms);
        let mut claims = self.claims.clone();
        claims.insert("iat".to_owned(), seconds(now_ms));
        claims.insert("exp".to_owned(), seconds(expires_at_ms));
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let value = format!(
            "{}.{}.",
            part(r#"{"alg":"none"}"#),
            part(&Value::Object(claims).to_string())
        );
        let mut token = Token::new(value, expires_at_ms);
        token.issued_at_ms = Some(now_ms);
        token.principal = self
            .claims
            .get(&self.principal_claim)
            .and_then(Value::as_str)
            .map(str::to_owned);
        token.extensions.clone_from(&self.extensions);
        token
    }
}

/// A time in seconds with its fraction, as Java writes it.
fn seconds(ms: i64) -> Value {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of this era are exact")]
    let seconds = ms as f64 / 1_000.0;
    Value::from(seconds)
}

impl TokenProvider for UnsecuredLogin {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(async { Ok(self.token_at(wall_ms())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_claims_and_no_signature() {
        let login = UnsecuredLogin {
            principal_claim: "sub".to_owned(),
            scope_claim: "scope".to_owned(),
            lifetime_seconds: 60,
            claims: Map::from_iter([("sub".to_owned(), Value::from("alice"))]),
            extensions: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        };
        let token = login.token_at(1_000_500);
        assert_eq!((token.expires_at_ms, token.issued_at_ms), (1_060_500, Some(1_000_500)));
        assert_eq!(token.principal.as_deref(), Some("alice"));
        assert_eq!(token.extensions.get("team").map(String::as_str), Some("blue"));
        let parts: Vec<&str> = token.value.expose().split('.').collect();
        let claims = URL_SAFE_NO_PAD.decode(parts[1]).unwrap();
        let claims: Value = serde_json::from_slice(&claims).unwrap();
        assert_eq!(
            claims,
            serde_json::json!({"sub": "alice", "iat": 1000.5, "exp": 1060.5})
        );
        assert_eq!((parts.len(), parts[2]), (3, ""));
    }
}
