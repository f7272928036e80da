//! JSON web tokens: verification by keys of a JWKS, unsecured tokens, and signed assertions.
//!
//! The rules are those of Kafka's brokers and clients. Nothing here fetches keys or tokens.

mod claims;
mod jwks;
mod signing;
#[cfg(test)]
mod tests;
mod token;

use serde_json::{Map, Value};

pub use jwks::Jwks;
pub use signing::{SigningKey, sign};

use self::token::Token;

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

impl Algorithm {
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The name in the header of a token.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];
}

/// Rules for the claims of a token, as Kafka's broker has them.
#[derive(Clone, Debug)]
pub struct Validation {
    /// `sasl.oauthbearer.expected.audience`: one of them must be in `aud`. Empty: a token with `aud` is refused.
    pub audience: Vec<String>,
    /// `sasl.oauthbearer.expected.issuer`. `None`: not checked.
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

impl UnsecuredValidation {
    /// Kafka's defaults: claims `sub` and `scope`, no required scope, no skew.
    pub fn new(now_ms: i64) -> Self {
        Self {
            principal_claim: "sub".to_owned(),
            scope_claim: "scope".to_owned(),
            required_scope: Vec::new(),
            skew_ms: 0,
            now_ms,
        }
    }
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

/// The id of the key that signed a token, not verified. It has at most 1000 characters.
pub fn key_id(token: &str) -> Result<Option<String>, JwtError> {
    Token::parse(token)?.key_id().map(|id| id.map(str::to_owned))
}

/// Verifies signature and claims.
pub fn verify(token: &str, keys: &Jwks, rules: &Validation) -> Result<Claims, JwtError> {
    let token = Token::parse(token)?;
    let algorithm = token.algorithm()?;
    keys.verify(token.key_id()?, algorithm, token.signed_part(), token.signature())?;
    claims::check_secured(token.claims()?, rules)
}

/// Reads a token without a signature (`alg` is `none`). Any client can write one: only for tests.
pub fn verify_unsecured(token: &str, rules: &UnsecuredValidation) -> Result<Claims, JwtError> {
    claims::check_unsecured(Token::parse_unsecured(token)?, rules)
}

/// Reads a token as its client does: the signature is not checked, because only the broker has the keys.
pub fn inspect(token: &str, scope_claim: &str, sub_claim: &str) -> Result<Claims, JwtError> {
    claims::read(Token::parse(token)?.claims()?, scope_claim, sub_claim)
}

/// A refused token, or keys that cannot be used. Never contains the token.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum JwtError {
    #[error("malformed token: {0}")]
    Malformed(String),
    /// The keys may be out of date: fetch them and verify again.
    #[error("no key of the JWKS has the id `{id}`")]
    UnknownKey { id: String },
    #[error("the token's signature is wrong")]
    Signature,
    #[error("the token's algorithm `{0}` is not supported")]
    Algorithm(String),
    #[error("{0}")]
    Claim(String),
    /// The token lacks a required scope. The text is the list of all that are required, as Kafka reports it.
    #[error("the token lacks a required scope of {scope}")]
    InsufficientScope { scope: String },
    #[error("JWKS: {0}")]
    Keys(String),
    #[error("signing key: {0}")]
    SigningKey(String),
}
