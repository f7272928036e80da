//! Credentials of AWS.

use std::{env, fmt, future::Future, pin::Pin};

use milena_security::Secret;

use crate::auth::TokenError;

/// An access key of AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsCredentials {
    pub access_key_id: String,
    pub secret_access_key: Secret,
    /// Present with temporary credentials.
    pub session_token: Option<Secret>,
}

impl AwsCredentials {
    pub fn new(access_key_id: impl Into<String>, secret_access_key: impl Into<Secret>) -> Self {
        Self {
            access_key_id: access_key_id.into(),
            secret_access_key: secret_access_key.into(),
            session_token: None,
        }
    }

    #[must_use]
    pub fn session_token(mut self, token: impl Into<Secret>) -> Self {
        self.session_token = Some(token.into());
        self
    }
}

/// The result of [`AwsCredentialsProvider::credentials`].
pub type CredentialsFuture<'a> = Pin<Box<dyn Future<Output = Result<AwsCredentials, TokenError>> + Send + 'a>>;

/// A source of credentials, asked for each token: the SDK of AWS, an instance's metadata, a web identity.
pub trait AwsCredentialsProvider: Send + Sync {
    fn credentials(&self) -> CredentialsFuture<'_>;
}

/// Fixed credentials.
impl AwsCredentialsProvider for AwsCredentials {
    fn credentials(&self) -> CredentialsFuture<'_> {
        Box::pin(async { Ok(self.clone()) })
    }
}

/// The variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`, read for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvironmentCredentials;

impl AwsCredentialsProvider for EnvironmentCredentials {
    fn credentials(&self) -> CredentialsFuture<'_> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let required = |name: &str| {
            variable(name).ok_or_else(|| {
                TokenError::Refused(format!(
                    "the environment variable {name} is not set; set it, or give other credentials in code"
                ))
            })
        };
        let credentials = required("AWS_ACCESS_KEY_ID").and_then(|id| {
            let mut credentials = AwsCredentials::new(id, required("AWS_SECRET_ACCESS_KEY")?);
            credentials.session_token = variable("AWS_SESSION_TOKEN").map(Secret::from);
            Ok(credentials)
        });
        Box::pin(async { credentials })
    }
}

impl fmt::Debug for dyn AwsCredentialsProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AwsCredentialsProvider")
    }
}
