//! The log-in of a connection with SASL, after ApiVersions and before the first request of the client.
//!
//! The messages are those of `milena_machines::sasl`; this driver sends them, fetches tokens and derives passwords. It also
//! renews the session of a connection that is in use (KIP-368).

mod salted;
mod tokens;

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use milena_machines::sasl::{
    ClientAction, ClientAuthError, ClientAuthenticator, ClientExchange, NONCE_BYTES, SaltedPassword, SaslError,
    reauthenticate_after_ms,
};
use milena_wire::{api::ApiKey, message::VersionRange};
use ring::rand::{SecureRandom as _, SystemRandom};

use self::{salted::SaltedPasswords, tokens::Tokens};
use super::{BrokerVersions, error::ConnectError, handshake::Handshake};
use crate::{
    auth::{AuthenticationError, Token, TokenError},
    config::SaslConfig,
    io::{Io, now_ms},
};

/// Later versions have no use for a client.
const AUTHENTICATE_VERSION_MAX: i16 = 2;
/// The first version whose tokens have error codes.
const HANDSHAKE_VERSION: i16 = 1;
/// Brokers refuse to renew a session more often than once a second.
const RENEWAL_MS_MIN: i64 = 1_100;

/// Logs in to brokers with the credentials of a client. All connections share tokens and derived passwords.
#[derive(Debug)]
pub(super) struct Authenticator {
    sasl: SaslConfig,
    salted: SaltedPasswords,
    tokens: Option<Arc<Tokens>>,
}

/// A session that the broker has granted.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// When the next request must wait for a renewal; `None` if the session does not end.
    pub(super) renew_at_ms: Option<i64>,
    /// The token of the log-in.
    token: Option<Arc<Token>>,
}

/// The outcome of a renewal.
#[derive(Debug)]
pub(super) enum Renewal {
    Renewed(Session),
    /// There is no newer token. The connection lives until the broker closes it.
    NoToken(String),
    /// The credentials belong to another identity, which a connection cannot change to.
    OtherIdentity,
}

impl Authenticator {
    pub(super) fn new(io: &Io, sasl: SaslConfig) -> Self {
        let tokens = match &sasl {
            SaslConfig::OAuthBearer(oauth) => Some(Tokens::new(io.clone(), oauth.clone())),
            SaslConfig::Plain { .. } | SaslConfig::Scram { .. } => None,
        };
        Self {
            sasl,
            salted: SaltedPasswords::default(),
            tokens,
        }
    }

    /// Logs in. The connection carries no other request before this is done.
    pub(super) async fn log_in(
        &self,
        handshake: &mut Handshake<'_>,
        versions: &BrokerVersions,
    ) -> Result<Session, ConnectError> {
        let token = match &self.tokens {
            Some(tokens) => Some(
                tokens
                    .current()
                    .await
                    .map_err(|error| self.no_token(handshake, error))?,
            ),
            None => None,
        };
        self.exchange(handshake, versions, token).await
    }

    /// Renews the session of a connection without requests in flight.
    pub(super) async fn renew(
        &self,
        handshake: &mut Handshake<'_>,
        versions: &BrokerVersions,
        session: &Session,
    ) -> Result<Renewal, ConnectError> {
        let token = match (&self.tokens, &session.token) {
            (Some(tokens), Some(used)) => match tokens.newer_than(used).await {
                Ok(token) if token.principal != used.principal => return Ok(Renewal::OtherIdentity),
                Ok(token) => Some(token),
                Err(error) => return Ok(Renewal::NoToken(error.to_string())),
            },
            _ => None,
        };
        self.exchange(handshake, versions, token).await.map(Renewal::Renewed)
    }

    async fn exchange(
        &self,
        handshake: &mut Handshake<'_>,
        versions: &BrokerVersions,
        token: Option<Arc<Token>>,
    ) -> Result<Session, ConnectError> {
        let started_ms = now_ms();
        let choose = |api, min, max| {
            let chosen = versions.choose(api, VersionRange::new(min, max), handshake.broker);
            chosen.map_err(|error| ConnectError::NoSasl(Box::new(error)))
        };
        let handshake_version = choose(ApiKey::SaslHandshake, HANDSHAKE_VERSION, HANDSHAKE_VERSION)?;
        let version = choose(ApiKey::SaslAuthenticate, 0, AUTHENTICATE_VERSION_MAX)?;
        let exchange = self.start(token.as_deref());
        let mut machine = ClientAuthenticator::new(exchange?.map_err(|error| self.refused(handshake, error.into()))?);
        let response = handshake
            .request(&machine.handshake_request(), handshake_version)
            .await?;
        let mut step = machine.handle_handshake(&response);
        loop {
            step = match step.map_err(|error| self.refused(handshake, error))? {
                ClientAction::Authenticate(request) => {
                    let response = handshake.request(&request, version).await?;
                    machine.handle_authenticate(&response)
                }
                ClientAction::DeriveSaltedPassword { salt, iterations } => {
                    let password = self.salted_password(&salt, iterations).await;
                    let password = password.ok_or(ConnectError::NoRandomNumbers)?;
                    machine.handle_salted_password(&password)
                }
                ClientAction::Done { session_lifetime_ms } => {
                    let renew_at_ms = session_lifetime_ms.map(|ms| renew_at_ms(started_ms, ms));
                    return Ok(Session { renew_at_ms, token });
                }
            };
        }
    }

    fn start(&self, token: Option<&Token>) -> Result<Result<ClientExchange, SaslError>, ConnectError> {
        Ok(match (&self.sasl, token) {
            (SaslConfig::Plain { username, password }, _) => ClientExchange::plain(username, password.expose()),
            (
                SaslConfig::Scram {
                    mechanism,
                    username,
                    login,
                    ..
                },
                _,
            ) => {
                let mut nonce = [0; NONCE_BYTES];
                let filled = SystemRandom::new().fill(&mut nonce);
                filled.map_err(|_| ConnectError::NoRandomNumbers)?;
                ClientExchange::scram(*mechanism, username, *login, nonce)
            }
            (SaslConfig::OAuthBearer(_), Some(token)) => {
                ClientExchange::oauth_bearer(token.value.expose(), "", &token.extensions)
            }
            (SaslConfig::OAuthBearer(_), None) => return Err(ConnectError::NoToken("it was not requested".to_owned())),
        })
    }

    /// The derived password; `None` only for a mechanism that has none.
    async fn salted_password(&self, salt: &bytes::Bytes, iterations: u32) -> Option<Arc<SaltedPassword>> {
        let SaslConfig::Scram {
            mechanism, password, ..
        } = &self.sasl
        else {
            return None;
        };
        self.salted.derive(*mechanism, password, salt, iterations).await
    }

    fn refused(&self, handshake: &Handshake<'_>, error: ClientAuthError) -> ConnectError {
        let hint = match error {
            // A listener without SASL, too, responds to a handshake of SASL.
            ClientAuthError::IllegalState { .. } => {
                "; if the listener has no SASL, set security.protocol to SSL or PLAINTEXT"
            }
            _ => "",
        };
        let text = match error {
            ClientAuthError::Rejected { text, .. } => text,
            error => error.to_string(),
        };
        let mechanism = self.sasl.mechanism();
        let text = format!("{text}{hint}");
        ConnectError::Authentication(AuthenticationError::new(handshake.broker, mechanism.name(), text))
    }

    fn no_token(&self, handshake: &Handshake<'_>, error: TokenError) -> ConnectError {
        match error {
            TokenError::Refused(text) => {
                let text = format!("cannot get a token: {text}");
                let mechanism = self.sasl.mechanism();
                ConnectError::Authentication(AuthenticationError::new(handshake.broker, mechanism.name(), text))
            }
            TokenError::Unavailable(text) => ConnectError::NoToken(text),
        }
    }
}

fn renew_at_ms(started_ms: i64, lifetime_ms: u64) -> i64 {
    let latency_ms = u64::try_from(now_ms().saturating_sub(started_ms)).unwrap_or(0);
    let seed = RandomState::new().hash_one(started_ms);
    let after_ms = i64::try_from(reauthenticate_after_ms(lifetime_ms, latency_ms, seed)).unwrap_or(i64::MAX);
    now_ms()
        .saturating_add(after_ms)
        .max(started_ms.saturating_add(RENEWAL_MS_MIN))
}
