//! Tokens for OAUTHBEARER, and where they come from.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin};

use milena_security::Secret;

/// A bearer token with its lifetime.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Token {
    pub value: Secret,
    /// Time of expiry, in milliseconds since 1970.
    pub expires_at_ms: i64,
    /// Time of issue, in milliseconds since 1970. Without it the lifetime starts when the token is received.
    pub issued_at_ms: Option<i64>,
    /// The identity that the broker will see, if it is known. A connection cannot change it, so that a token of another
    /// identity ends the connection in place of a re-authentication.
    pub principal: Option<String>,
    /// SASL extensions (KIP-342), such as `logicalCluster`.
    pub extensions: BTreeMap<String, String>,
}

impl Token {
    pub fn new(value: impl Into<Secret>, expires_at_ms: i64) -> Self {
        Self {
            value: value.into(),
            expires_at_ms,
            issued_at_ms: None,
            principal: None,
            extensions: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn principal(mut self, principal: impl Into<String>) -> Self {
        self.principal = Some(principal.into());
        self
    }

    #[must_use]
    pub fn extension(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extensions.insert(name.into(), value.into());
        self
    }
}

/// The reason why there is no token. The text must not contain a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The issuer refuses the client: the same request fails again.
    #[error("{0}")]
    Refused(String),
    /// The issuer cannot be reached or is out of order: a later request may succeed.
    #[error("{0}")]
    Unavailable(String),
}

/// The result of [`TokenProvider::token`].
pub type TokenFuture<'a> = Pin<Box<dyn Future<Output = Result<Token, TokenError>> + Send + 'a>>;

/// A source of tokens, given in code.
///
/// The client asks for the first token before its first connection, and shares it among all of them. It asks again before
/// the token expires; while that fails, the present token stays in use. A request may take 30 seconds at most. It runs on a
/// thread of its own, inside a tokio runtime.
///
/// ```
/// use milena_client::{auth::{Token, TokenError}, config::ConsumerConfig};
///
/// async fn fetch() -> Result<Token, TokenError> {
///     let in_an_hour_ms = 1_800_000_000_000;
///     Ok(Token::new("eyJhbGciOi…", in_an_hour_ms))
/// }
///
/// let config = ConsumerConfig::builder("broker:9093")
///     .set("security.protocol", "SASL_SSL")
///     .set("sasl.mechanism", "OAUTHBEARER")
///     .token_provider(fetch);
/// # config.build()?;
/// # Ok::<(), milena_client::config::ConfigErrors>(())
/// ```
pub trait TokenProvider: Send + Sync {
    /// Requests a new token.
    fn token(&self) -> TokenFuture<'_>;
}

impl<F, T> TokenProvider for F
where
    F: Fn() -> T + Send + Sync,
    T: Future<Output = Result<Token, TokenError>> + Send + 'static,
{
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(self())
    }
}

impl fmt::Debug for dyn TokenProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenProvider")
    }
}
