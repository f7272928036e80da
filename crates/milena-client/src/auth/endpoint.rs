//! Tokens of an OAuth 2.0 token endpoint: client credentials, client assertions and the JWT bearer grant.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use milena_http::{Client, ClientOptions, HttpError, Request, Response, Scheme, Url, form};
use milena_machines::{Random, backoff::Backoff};
use milena_security::{Secret, tls::ClientTls};
use serde_json::Value;
use tokio::time::Instant;

use super::{Assertion, JwtClaimNames, Token, TokenError, TokenFuture, TokenProvider};
use crate::io::wall_ms;

const RESPONSE_BYTES_MAX: usize = 64 << 10;
/// Most characters of an issuer's text in a message.
const TEXT_MAX: usize = 300;
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// A token endpoint, and the way in which the client authenticates there.
pub(crate) struct TokenEndpoint {
    pub(crate) url: Url,
    pub(crate) grant: Grant,
    pub(crate) scope: Option<String>,
    pub(crate) claims: JwtClaimNames,
    pub(crate) extensions: BTreeMap<String, String>,
    /// For `https`.
    pub(crate) tls: Option<Arc<ClientTls>>,
    pub(crate) connect_timeout: Duration,
    pub(crate) read_timeout: Duration,
    pub(crate) retries: EndpointRetries,
}

/// The grant of RFC 6749 or RFC 7523 that is requested.
#[derive(Debug)]
pub(crate) enum Grant {
    ClientCredentials(ClientAuthentication),
    /// The assertion itself is exchanged for a token.
    JwtBearer(Assertion),
}

#[derive(Debug)]
pub(crate) enum ClientAuthentication {
    Secret {
        id: String,
        secret: Secret,
        /// `sasl.oauthbearer.header.urlencode`: RFC 6749 asks for it, many issuers do not expect it.
        is_encoded: bool,
    },
    Assertion {
        client_id: Option<String>,
        assertion: Assertion,
    },
}

/// `sasl.login.retry.backoff.ms`, and `sasl.login.retry.backoff.max.ms` as the time for all attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndpointRetries {
    pub(crate) backoff_ms: i64,
    pub(crate) within_ms: i64,
}

impl TokenEndpoint {
    async fn fetch(&self) -> Result<Token, TokenError> {
        let started = Instant::now();
        let mut backoff = Backoff::new(self.retries.backoff_ms, self.retries.within_ms);
        let mut random = Random::new(RandomState::new().hash_one(wall_ms()));
        loop {
            let error = match self.attempt().await {
                Err(error @ TokenError::Unavailable(_)) => error,
                done => return done,
            };
            let wait = millis(backoff.next_ms(&mut random));
            if started.elapsed() + wait > millis(self.retries.within_ms) {
                return Err(error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn attempt(&self) -> Result<Token, TokenError> {
        let body = self.form()?;
        let client = self.client().map_err(|error| self.unavailable(&error))?;
        let mut request = Request::post("application/x-www-form-urlencoded", body.expose().as_bytes().to_vec())
            .header("Accept", "application/json");
        if let Grant::ClientCredentials(ClientAuthentication::Secret { id, secret, is_encoded }) = &self.grant {
            request = match is_encoded {
                true => request.basic_auth(&form::encode_value(id), &form::encode_value(secret.expose())),
                false => request.basic_auth(id, secret.expose()),
            };
        }
        let response = client.send(&request).await.map_err(|error| self.unavailable(&error))?;
        let mut token = self.read(&response)?;
        token.extensions.clone_from(&self.extensions);
        Ok(token)
    }

    fn client(&self) -> Result<Client, HttpError> {
        let options = ClientOptions {
            connect_timeout: self.connect_timeout,
            response_timeout: Some(self.read_timeout),
            response_bytes_max: RESPONSE_BYTES_MAX,
            idle_max: 0,
        };
        match (self.url.scheme(), &self.tls) {
            (Scheme::Https, Some(tls)) => {
                if let Err(error) = tls.reload_if_changed() {
                    tracing::warn!(event = "certificates_not_reloaded", %error, "certificates not reloaded: {error}");
                }
                Client::secured(self.url.clone(), options, &tls.config())
            }
            _ => Client::plain(self.url.clone(), options),
        }
    }

    fn form(&self) -> Result<Secret, TokenError> {
        let scope = self.scope.as_deref().map(|scope| ("scope", scope));
        let encode = |fields: &[(&str, &str)]| Secret::from(form::encode(fields.iter().copied().chain(scope)));
        Ok(match &self.grant {
            Grant::ClientCredentials(ClientAuthentication::Secret { .. }) => {
                encode(&[("grant_type", "client_credentials")])
            }
            Grant::ClientCredentials(ClientAuthentication::Assertion { client_id, assertion }) => {
                let assertion = assertion.create(wall_ms())?;
                let mut fields = vec![
                    ("grant_type", "client_credentials"),
                    ("client_assertion_type", ASSERTION_TYPE),
                    ("client_assertion", assertion.expose()),
                ];
                fields.extend(client_id.as_deref().map(|id| ("client_id", id)));
                encode(&fields)
            }
            Grant::JwtBearer(assertion) => {
                let assertion = assertion.create(wall_ms())?;
                encode(&[("grant_type", JWT_BEARER), ("assertion", assertion.expose())])
            }
        })
    }

    fn read(&self, response: &Response) -> Result<Token, TokenError> {
        let url = &self.url;
        let json: Option<Value> = serde_json::from_slice(&response.body).ok();
        if !response.is_success() {
            let why = json.as_ref().map(refusal).unwrap_or_default();
            let text = format!(
                "the token endpoint {url} responded with status {}{why}",
                response.status
            );
            return Err(match is_retriable(response.status) {
                true => TokenError::Unavailable(text),
                false => TokenError::Refused(text),
            });
        }
        let jwt = ["access_token", "id_token"]
            .iter()
            .find_map(|name| json.as_ref()?.get(name)?.as_str())
            .filter(|jwt| !jwt.is_empty());
        let jwt = jwt.ok_or_else(|| {
            TokenError::Refused(format!(
                "the response of the token endpoint {url} has neither `access_token` nor `id_token`"
            ))
        })?;
        self.claims.read(jwt, &url.to_string())
    }

    fn unavailable(&self, error: &HttpError) -> TokenError {
        TokenError::Unavailable(format!("the token endpoint {} cannot be used: {error}", self.url))
    }
}

impl TokenProvider for TokenEndpoint {
    fn token(&self) -> TokenFuture<'_> {
        Box::pin(self.fetch())
    }
}

impl fmt::Debug for TokenEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenEndpoint")
            .field("url", &self.url)
            .field("grant", &self.grant)
            .finish_non_exhaustive()
    }
}

/// Statuses that a later attempt may not have, as in Java's client.
fn is_retriable(status: u16) -> bool {
    !matches!(status, 300..=407 | 409..=415 | 501 | 505)
}

/// The fields of an error response that say why, as RFC 6749 and some issuers name them.
fn refusal(json: &Value) -> String {
    let fields = ["error", "errorCode", "error_description", "errorSummary"];
    let texts = fields.iter().filter_map(|name| json.get(name)?.as_str());
    let text = texts.collect::<Vec<_>>().join(": ");
    let text: String = text.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect();
    match text.is_empty() {
        true => text,
        false => format!(" ({text})"),
    }
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests;
