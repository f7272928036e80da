//! Amazon MSK with IAM: the token is a signed URL (mechanism OAUTHBEARER).

mod credentials;
mod signature;

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

pub use credentials::{AwsCredentials, AwsCredentialsProvider, CredentialsFuture, EnvironmentCredentials};

use self::signature::{Presigned, timestamp};
use super::{Token, TokenError, TokenFuture, TokenProvider};
use crate::io::wall_ms;

/// Lifetime of a token. Amazon accepts at most this.
const LIFETIME_SECONDS: u32 = 900;
const USER_AGENT: &str = concat!("milena/", env!("CARGO_PKG_VERSION"));

/// Tokens for Amazon MSK, signed with the credentials of an IAM user or role.
///
/// Config keys do the same with the credentials of the environment: `sasl.mechanism=AWS_MSK_IAM`. Other credentials, such as
/// those of an instance or of a web identity, come from an [`AwsCredentialsProvider`].
///
/// ```
/// use milena_client::{auth::AwsMskIam, config::ProducerConfig};
///
/// let config = ProducerConfig::builder("b-1.demo.kafka.eu-west-1.amazonaws.com:9098")
///     .set("security.protocol", "SASL_SSL")
///     .set("sasl.mechanism", "OAUTHBEARER")
///     .token_provider(AwsMskIam::from_environment("eu-west-1"));
/// ```
#[derive(Debug, Clone)]
pub struct AwsMskIam {
    region: String,
    credentials: Arc<dyn AwsCredentialsProvider>,
}

impl AwsMskIam {
    /// Credentials of the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    pub fn from_environment(region: impl Into<String>) -> Self {
        Self::new(region, EnvironmentCredentials)
    }

    pub fn new(region: impl Into<String>, credentials: impl AwsCredentialsProvider + 'static) -> Self {
        Self {
            region: region.into(),
            credentials: Arc::new(credentials),
        }
    }

    fn sign(&self, credentials: &AwsCredentials, now_ms: i64) -> Token {
        let host = format!("kafka.{}.amazonaws.com", self.region);
        let url = Presigned {
            host: &host,
            path: "/",
            region: &self.region,
            service: "kafka-cluster",
            parameters: &[("Action", "kafka-cluster:Connect")],
            payload_hash: signature::EMPTY_HASH,
            expires_seconds: LIFETIME_SECONDS,
        }
        .url(credentials, &timestamp(now_ms));
        let url = format!("{url}&User-Agent={}", signature::percent_encode(USER_AGENT));
        let lifetime_ms = i64::from(LIFETIME_SECONDS) * 1_000;
        let mut token = Token::new(URL_SAFE_NO_PAD.encode(url), now_ms.saturating_add(lifetime_ms));
        token.issued_at_ms = Some(now_ms);
        // Rotated credentials of a session are another principal for the broker.
        token.principal(&credentials.access_key_id)
    }
}

impl TokenProvider for AwsMskIam {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(async {
            let credentials = self.credentials.credentials().await?;
            if credentials.access_key_id.is_empty() || credentials.secret_access_key.is_empty() {
                return Err(TokenError::Refused("the AWS credentials are empty".to_owned()));
            }
            Ok(self.sign(&credentials, wall_ms()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_a_url_with_the_session_and_the_user_agent() {
        let credentials = AwsCredentials {
            session_token: Some("session/1+".into()),
            ..AwsCredentials::new("AKID", "secret")
        };
        let provider = AwsMskIam::new("eu-west-1", credentials.clone());
        let token = provider.sign(&credentials, 1_440_938_160_000);
        assert_eq!(token.expires_at_ms, 1_440_938_160_000 + 900_000);
        let url = URL_SAFE_NO_PAD.decode(token.value.expose()).unwrap();
        let url = String::from_utf8(url).unwrap();
        let rest = url.strip_prefix("https://kafka.eu-west-1.amazonaws.com/?").unwrap();
        let names: Vec<&str> = rest.split('&').map(|pair| pair.split_once('=').unwrap().0).collect();
        assert_eq!(
            names,
            [
                "Action",
                "X-Amz-Algorithm",
                "X-Amz-Credential",
                "X-Amz-Date",
                "X-Amz-Expires",
                "X-Amz-Security-Token",
                "X-Amz-SignedHeaders",
                "X-Amz-Signature",
                "User-Agent"
            ]
        );
        assert!(rest.contains("Action=kafka-cluster%3AConnect&"), "{rest}");
        assert!(rest.contains("&X-Amz-Credential=AKID%2F20150830%2Feu-west-1%2Fkafka-cluster%2Faws4_request&"));
        assert!(
            rest.contains("&X-Amz-Date=20150830T123600Z&X-Amz-Expires=900&"),
            "{rest}"
        );
        assert!(rest.contains("&X-Amz-Security-Token=session%2F1%2B&"), "{rest}");
        assert!(!format!("{token:?}{provider:?}").contains("secret"));
    }
}
