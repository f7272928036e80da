//! The verification of OAUTHBEARER tokens, for each listener.

mod keys;
mod missing_keys;
mod source;

use std::{
    collections::BTreeMap,
    time::{SystemTime, UNIX_EPOCH},
};

use milena_machines::sasl::{BearerToken, TokenRejection, VerifiedToken};
use milena_security::jwt::{self, Claims, JwtError, UnsecuredValidation, Validation};

use self::keys::IssuerKeys;
use crate::config::{BrokerConfig, ConfigError, TokenOptions, TokenRules, UnsecuredRules};

/// The verifiers of all listeners that accept tokens, by the name of the listener.
#[derive(Debug, Default)]
pub(crate) struct TokenVerifiers(BTreeMap<String, Verifier>);

#[derive(Debug)]
enum Verifier {
    Signed { keys: IssuerKeys, rules: TokenRules },
    Unsecured(UnsecuredRules),
}

impl TokenVerifiers {
    /// Reads the keys of all issuers; the broker does not start without them.
    pub(crate) async fn start(config: &BrokerConfig) -> Result<Self, ConfigError> {
        let mut verifiers = BTreeMap::new();
        for listener in &config.listeners {
            let sasl = config.security_of(listener)?.sasl;
            let mechanisms = sasl.into_iter().flat_map(|sasl| sasl.mechanisms);
            let Some(options) = mechanisms.filter_map(|mechanism| mechanism.tokens).next() else {
                continue;
            };
            let verifier = match options {
                TokenOptions::Jwks(options) => {
                    let keys = IssuerKeys::start(&listener.name, &options).await;
                    let keys = keys.map_err(|error| ConfigError::Security {
                        listener: listener.name.clone(),
                        problem: format!("the keys that verify tokens cannot be loaded: {error}"),
                    })?;
                    Verifier::Signed {
                        keys,
                        rules: options.rules,
                    }
                }
                TokenOptions::Unsecured(rules) => {
                    tracing::warn!(
                        event = "unsecured_tokens",
                        listener = %listener.name,
                        "tokens are accepted without a signature (milena.oauthbearer.unsecured=true): anyone can log in as \
                         anyone; only for tests"
                    );
                    Verifier::Unsecured(rules)
                }
            };
            verifiers.insert(listener.name.clone(), verifier);
        }
        Ok(Self(verifiers))
    }

    /// Verifies a token that a client of a listener sent.
    pub(crate) async fn verify(&self, listener: &str, token: &BearerToken) -> Result<VerifiedToken, TokenRejection> {
        let now_ms = now_ms();
        let claims = match self.0.get(listener) {
            Some(Verifier::Signed { keys, rules }) => {
                let rules = rules.at(now_ms);
                keys.verify(|keys| jwt::verify(token.token(), keys, &rules)).await
            }
            Some(Verifier::Unsecured(rules)) => jwt::verify_unsecured(token.token(), &rules.at(now_ms)),
            None => {
                let reason = "the listener does not verify tokens".to_owned();
                return Err(TokenRejection::Internal { reason });
            }
        };
        match claims {
            Ok(claims) => Ok(verified(claims, now_ms)),
            Err(JwtError::InsufficientScope { scope }) => Err(TokenRejection::InsufficientScope { scope: Some(scope) }),
            Err(error) => Err(TokenRejection::Invalid {
                reason: error.to_string(),
            }),
        }
    }

    /// The refreshes of keys by listener: those that succeeded, and those that failed.
    pub(crate) fn refreshes(&self) -> impl Iterator<Item = (&str, (u64, u64))> {
        self.0.iter().filter_map(|(listener, verifier)| match verifier {
            Verifier::Signed { keys, .. } => Some((listener.as_str(), keys.refreshes())),
            Verifier::Unsecured(_) => None,
        })
    }
}

fn verified(claims: Claims, now_ms: i64) -> VerifiedToken {
    VerifiedToken {
        principal: claims.principal.into(),
        // A token that has expired within the allowed skew gets a session without time.
        lifetime_ms: u64::try_from(claims.expires_at_ms.saturating_sub(now_ms)).unwrap_or(0),
    }
}

impl TokenRules {
    fn at(&self, now_ms: i64) -> Validation {
        Validation {
            audience: self.audience.clone(),
            issuer: self.issuer.clone(),
            skew_ms: self.skew_ms,
            scope_claim: self.scope_claim.clone(),
            sub_claim: self.sub_claim.clone(),
            now_ms,
        }
    }
}

impl UnsecuredRules {
    fn at(&self, now_ms: i64) -> UnsecuredValidation {
        UnsecuredValidation {
            principal_claim: self.principal_claim.clone(),
            scope_claim: self.scope_claim.clone(),
            required_scope: self.required_scope.clone(),
            skew_ms: self.skew_ms,
            now_ms,
        }
    }
}

fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
