//! JSON web tokens: verification by keys of a JWKS, unsecured tokens, and signed assertions.

use serde_json::{Map, Value};

use crate::Secret;

/// Signature algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    EdDsa,
}

/// Public keys of an issuer (RFC 7517).
#[derive(Clone, Debug, Default)]
pub struct Jwks {}

impl Jwks {
    /// Parses a key set. Keys of unknown kinds are skipped; a set without any usable key is an error.
    pub fn parse(json: &[u8]) -> Result<Self, JwtError> {
        let _ = json;
        Err(JwtError::Keys("not there yet".to_owned()))
    }

    /// Whether a key has this id. If not, the set may be out of date.
    pub fn has_key(&self, id: &str) -> bool {
        let _ = id;
        false
    }
}

/// Rules for the claims of a token, as Kafka's broker has them.
#[derive(Clone, Debug)]
pub struct Validation {
    /// `sasl.oauthbearer.expected.audience`: one of them must be in `aud`. Empty: not checked.
    pub audience: Vec<String>,
    /// `sasl.oauthbearer.expected.issuer`.
    pub issuer: Option<String>,
    /// `sasl.oauthbearer.clock.skew.seconds`, in milliseconds.
    pub skew_ms: i64,
    /// `sasl.oauthbearer.scope.claim.name`.
    pub scope_claim: String,
    /// `sasl.oauthbearer.sub.claim.name`.
    pub sub_claim: String,
    pub now_ms: i64,
}

impl Validation {
    /// Kafka's defaults: no audience and issuer, 30 seconds of skew, claims `scope` and `sub`.
    pub fn new(now_ms: i64) -> Self {
        Self {
            audience: Vec::new(),
            issuer: None,
            skew_ms: 30_000,
            scope_claim: "scope".to_owned(),
            sub_claim: "sub".to_owned(),
            now_ms,
        }
    }
}

/// Rules for unsecured tokens, as Kafka's validator for tests has them.
#[derive(Clone, Debug)]
pub struct UnsecuredValidation {
    /// `unsecuredValidatorPrincipalClaimName`.
    pub principal_claim: String,
    /// `unsecuredValidatorScopeClaimName`.
    pub scope_claim: String,
    /// `unsecuredValidatorRequiredScope`, split at spaces.
    pub required_scope: Vec<String>,
    /// `unsecuredValidatorAllowableClockSkewMs`.
    pub skew_ms: i64,
    pub now_ms: i64,
}

/// Claims of a token that passed.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    /// The principal's name, from the claim that the rules name.
    pub principal: String,
    pub scope: Vec<String>,
    pub expires_at_ms: i64,
    pub issued_at_ms: Option<i64>,
    /// All claims.
    pub all: Map<String, Value>,
}

/// The id of the key that signed a token, not verified.
pub fn key_id(token: &str) -> Result<Option<String>, JwtError> {
    let _ = token;
    Ok(None)
}

/// Verifies signature and claims.
pub fn verify(token: &str, keys: &Jwks, rules: &Validation) -> Result<Claims, JwtError> {
    let _ = (token, keys, rules);
    Err(JwtError::Malformed("not there yet".to_owned()))
}

/// Reads a token without a signature (`alg` is `none`). Anybody can write one: only for tests.
pub fn verify_unsecured(token: &str, rules: &UnsecuredValidation) -> Result<Claims, JwtError> {
    let _ = (token, rules);
    Err(JwtError::Malformed("not there yet".to_owned()))
}

/// Reads a token as its client does: the signature is not checked, because only the broker has the keys.
pub fn inspect(token: &str, scope_claim: &str, sub_claim: &str) -> Result<Claims, JwtError> {
    let _ = (token, scope_claim, sub_claim);
    Err(JwtError::Malformed("not there yet".to_owned()))
}

/// A private key for signed assertions.
pub struct SigningKey {
    _private: (),
}

impl SigningKey {
    /// Reads a private key in PEM, encrypted or not.
    pub fn from_pem(pem: &Secret, password: Option<&Secret>) -> Result<Self, JwtError> {
        let _ = (pem, password);
        Err(JwtError::SigningKey("not there yet".to_owned()))
    }
}

/// Signs claims, with [`Algorithm::Rs256`] or [`Algorithm::Es256`]. `header` has further fields, as `kid`.
pub fn sign(
    algorithm: Algorithm,
    key: &SigningKey,
    header: &Map<String, Value>,
    claims: &Map<String, Value>,
) -> Result<Secret, JwtError> {
    let _ = (algorithm, key, header, claims);
    Err(JwtError::SigningKey("not there yet".to_owned()))
}

/// A refused token, or keys that cannot be used. Never contains the token.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwtError {
    #[error("malformed token: {0}")]
    Malformed(String),
    #[error("no key of the JWKS has the id `{id}`")]
    UnknownKey { id: String },
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the algorithm `{0}` is not supported")]
    Algorithm(String),
    #[error("{0}")]
    Claim(String),
    /// The token lacks a required scope.
    #[error("the token lacks the scope `{scope}`")]
    InsufficientScope { scope: String },
    #[error("JWKS: {0}")]
    Keys(String),
    #[error("signing key: {0}")]
    SigningKey(String),
}
