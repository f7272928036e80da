//! The messages of one mechanism, from the client's side.

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;

use crate::sasl::{
    Mechanism, SaltedPassword, SaslError, ScramMechanism,
    oauth::{self, ERROR_ACKNOWLEDGEMENT},
    plain,
    scram::{NONCE_BYTES, ScramClient},
};

/// One exchange of messages. A re-authentication needs a new one.
pub struct ClientExchange {
    state: State,
}

enum State {
    Plain(OneMessage),
    Scram(Box<ScramClient>),
    OAuthBearer(OneMessage),
}

/// A mechanism whose client says everything in its first message.
enum OneMessage {
    Start(Bytes),
    Sent,
    /// The broker has sent this error, and waits for the acknowledgement.
    Failed(String),
    End,
}

/// The next step of an exchange.
#[derive(Clone, PartialEq, Eq)]
pub enum ClientStep {
    /// A message for the broker. May contain a password or token.
    Send(Bytes),
    /// Derive the salted password ([`SaltedPassword::derive`]) on another thread, or take it from a cache; then call
    /// [`ClientExchange::handle_salted_password`].
    DeriveSaltedPassword {
        salt: Bytes,
        iterations: u32,
    },
    Done,
}

/// Without the message.
impl fmt::Debug for ClientStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(_) => f.write_str("Send([hidden])"),
            Self::DeriveSaltedPassword { iterations, .. } => write!(f, "DeriveSaltedPassword({iterations} iterations)"),
            Self::Done => f.write_str("Done"),
        }
    }
}

/// The kind of credentials that a SCRAM log-in uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScramLogin {
    #[default]
    User,
    /// The user name is a token id, and the password its HMAC in base64.
    DelegationToken,
}

impl ClientExchange {
    pub fn plain(username: &str, password: &str) -> Result<Self, SaslError> {
        let message = plain::encode(username, password)?;
        Ok(Self {
            state: State::Plain(OneMessage::Start(message)),
        })
    }

    /// An exchange of SCRAM; the password is needed only for [`ClientStep::DeriveSaltedPassword`].
    pub fn scram(
        mechanism: ScramMechanism,
        username: &str,
        login: ScramLogin,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Self, SaslError> {
        let client = ScramClient::new(mechanism, username, login, nonce)?;
        Ok(Self {
            state: State::Scram(Box::new(client)),
        })
    }

    /// An exchange of OAUTHBEARER. `authorization_id` is empty for none; the broker wants the token's principal there.
    pub fn oauth_bearer(
        token: &str,
        authorization_id: &str,
        extensions: &BTreeMap<String, String>,
    ) -> Result<Self, SaslError> {
        let message = oauth::encode(token, authorization_id, extensions)?;
        Ok(Self {
            state: State::OAuthBearer(OneMessage::Start(message)),
        })
    }

    pub fn mechanism(&self) -> Mechanism {
        match &self.state {
            State::Plain(_) => Mechanism::Plain,
            State::Scram(client) => Mechanism::Scram(client.mechanism()),
            State::OAuthBearer(_) => Mechanism::OAuthBearer,
        }
    }

    /// Returns the first message.
    pub fn start(&mut self) -> Result<ClientStep, SaslError> {
        let mechanism = self.mechanism();
        match &mut self.state {
            State::Scram(client) => client.start(),
            State::Plain(state) | State::OAuthBearer(state) => match std::mem::replace(state, OneMessage::End) {
                OneMessage::Start(message) => {
                    *state = OneMessage::Sent;
                    Ok(ClientStep::Send(message))
                }
                _ => Err(SaslError::UnexpectedMessage { mechanism }),
            },
        }
    }

    /// Takes a message of the broker, which may be empty.
    pub fn handle_challenge(&mut self, challenge: &[u8]) -> Result<ClientStep, SaslError> {
        let mechanism = self.mechanism();
        let (state, has_errors) = match &mut self.state {
            State::Scram(client) => return client.handle_challenge(challenge),
            State::Plain(state) => (state, false),
            State::OAuthBearer(state) => (state, true),
        };
        match std::mem::replace(state, OneMessage::End) {
            OneMessage::Sent if challenge.is_empty() => Ok(ClientStep::Done),
            OneMessage::Sent if has_errors => {
                *state = OneMessage::Failed(error_text(challenge));
                Ok(ClientStep::Send(Bytes::from_static(ERROR_ACKNOWLEDGEMENT)))
            }
            OneMessage::Sent => Err(SaslError::InvalidMessage {
                mechanism,
                problem: "it is not empty",
            }),
            OneMessage::Failed(error) => Err(SaslError::TokenRefused { error }),
            OneMessage::Start(_) | OneMessage::End => Err(SaslError::UnexpectedMessage { mechanism }),
        }
    }

    /// Takes the derived password and returns the message with the proof.
    pub fn handle_salted_password(&mut self, password: &SaltedPassword) -> Result<ClientStep, SaslError> {
        let mechanism = self.mechanism();
        match &mut self.state {
            State::Scram(client) => client.handle_salted_password(password),
            State::Plain(_) | State::OAuthBearer(_) => Err(SaslError::UnexpectedMessage { mechanism }),
        }
    }
}

/// Without messages, which have passwords.
impl fmt::Debug for ClientExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientExchange({})", self.mechanism())
    }
}

/// The broker's error, cut to a length that fits a log line.
fn error_text(challenge: &[u8]) -> String {
    const ERROR_CHARS_MAX: usize = 1000;
    String::from_utf8_lossy(challenge)
        .chars()
        .take(ERROR_CHARS_MAX)
        .collect()
}
