//! The messages of one mechanism, from the broker's side.

use std::collections::BTreeMap;

use bytes::Bytes;
use bytestring::ByteString;

use super::{TokenRejection, VerifiedToken};
use crate::sasl::{
    BearerToken, Mechanism, PlainCredentials, ScramCredential, ScramMechanism,
    oauth::{self, ERROR_ACKNOWLEDGEMENT},
    plain,
    scram::{ClientFirst, ScramServer},
};

const FOREIGN_AUTHORIZATION_ID: &str =
    "Authentication failed: Client requested an authorization id that is different from username";

/// One exchange. Each input leads to one step.
pub(super) struct ServerExchange {
    mechanism: Mechanism,
    state: State,
}

enum State {
    Start,
    /// The driver compares the password.
    Plain {
        username: String,
        has_foreign_authorization_id: bool,
    },
    /// The driver looks the user up.
    ScramLookup(ClientFirst),
    ScramProof(Box<ScramServer>),
    /// The driver verifies the token.
    Token {
        authorization_id: String,
        extensions: BTreeMap<String, String>,
    },
    /// The token was refused with this JSON, which the client acknowledges.
    TokenRefused {
        json: String,
        reason: String,
    },
    End,
}

pub(super) enum ExchangeStep {
    Challenge(Bytes),
    VerifyPlain(PlainCredentials),
    LookupScram {
        mechanism: ScramMechanism,
        username: ByteString,
    },
    VerifyToken(BearerToken),
    Done(Identity),
    Failed(ExchangeFailure),
}

/// The outcome of a successful exchange.
pub(super) struct Identity {
    pub(super) principal: ByteString,
    pub(super) message: Bytes,
    /// The lifetime of the credential; `None` if it has none.
    pub(super) lifetime_ms: Option<u64>,
    pub(super) extensions: BTreeMap<String, String>,
}

pub(super) struct ExchangeFailure {
    /// The text for the client; without one, it gets a text that reveals nothing.
    pub(super) client_text: Option<String>,
    pub(super) reason: String,
}

impl ServerExchange {
    pub(super) fn new(mechanism: Mechanism) -> Self {
        Self {
            mechanism,
            state: State::Start,
        }
    }

    pub(super) fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// Whether the next input is a message of the client; otherwise it is a report of the driver.
    pub(super) fn wants_message(&self) -> bool {
        matches!(
            self.state,
            State::Start | State::ScramProof(_) | State::TokenRefused { .. }
        )
    }

    pub(super) fn handle_message(&mut self, message: &[u8]) -> ExchangeStep {
        match std::mem::replace(&mut self.state, State::End) {
            State::Start => match self.mechanism {
                Mechanism::Plain => self.start_plain(message),
                Mechanism::Scram(mechanism) => self.start_scram(mechanism, message),
                Mechanism::OAuthBearer => self.start_oauth(message),
            },
            State::ScramProof(server) => match server.finish(message) {
                Ok((username, message)) => done(username.into(), message),
                Err(problem) => failed(problem),
            },
            State::TokenRefused { json, reason } if message == ERROR_ACKNOWLEDGEMENT => failed_with_text(json, &reason),
            State::TokenRefused { reason, .. } => failed(&reason),
            State::Plain { .. } | State::ScramLookup(_) | State::Token { .. } | State::End => {
                failed("a message arrived that the exchange does not expect")
            }
        }
    }

    fn start_plain(&mut self, message: &[u8]) -> ExchangeStep {
        match plain::parse(message) {
            Ok(credentials) => {
                self.state = State::Plain {
                    username: credentials.username().to_owned(),
                    has_foreign_authorization_id: credentials.has_foreign_authorization_id(),
                };
                ExchangeStep::VerifyPlain(credentials)
            }
            Err(text) => failed_with_text(text.clone(), &text),
        }
    }

    fn start_scram(&mut self, mechanism: ScramMechanism, message: &[u8]) -> ExchangeStep {
        let first = match ClientFirst::parse(message) {
            Ok(first) => first,
            Err(problem) => return failed(&format!("the client's first message is invalid: {problem}")),
        };
        if first.is_token_login {
            let text = "Authentication failed: this broker has no delegation tokens, log in as a SCRAM user";
            return failed_with_text(text.to_owned(), "delegation tokens are not supported");
        }
        if first.has_foreign_authorization_id() {
            return failed_with_text(
                FOREIGN_AUTHORIZATION_ID.to_owned(),
                "the authorization id is not the user name",
            );
        }
        let username = ByteString::from(first.username.as_str());
        self.state = State::ScramLookup(first);
        ExchangeStep::LookupScram { mechanism, username }
    }

    fn start_oauth(&mut self, message: &[u8]) -> ExchangeStep {
        match oauth::parse(message) {
            Ok(token) => {
                self.state = State::Token {
                    authorization_id: token.authorization_id().to_owned(),
                    extensions: token.extensions().clone(),
                };
                ExchangeStep::VerifyToken(token)
            }
            Err(problem) => failed(problem),
        }
    }

    pub(super) fn handle_plain(&mut self, is_valid: bool) -> ExchangeStep {
        match std::mem::replace(&mut self.state, State::End) {
            State::Plain { .. } if !is_valid => failed_with_text(
                "Authentication failed: Invalid username or password".to_owned(),
                "the user name or the password is wrong",
            ),
            State::Plain {
                has_foreign_authorization_id: true,
                ..
            } => failed_with_text(
                FOREIGN_AUTHORIZATION_ID.to_owned(),
                "the authorization id is not the user name",
            ),
            State::Plain { username, .. } => done(username.into(), Bytes::new()),
            _ => unexpected_report(),
        }
    }

    pub(super) fn handle_scram(
        &mut self,
        credential: Option<ScramCredential>,
        nonce: &str,
        unknown_user_key: &[u8],
    ) -> ExchangeStep {
        match (std::mem::replace(&mut self.state, State::End), self.mechanism) {
            (State::ScramLookup(first), Mechanism::Scram(mechanism)) => {
                let (server, message) = ScramServer::start(mechanism, first, credential, nonce, unknown_user_key);
                self.state = State::ScramProof(Box::new(server));
                ExchangeStep::Challenge(message)
            }
            _ => unexpected_report(),
        }
    }

    pub(super) fn handle_token(&mut self, result: Result<VerifiedToken, TokenRejection>) -> ExchangeStep {
        let State::Token {
            authorization_id,
            extensions,
        } = std::mem::replace(&mut self.state, State::End)
        else {
            return unexpected_report();
        };
        match result {
            Ok(token) if authorization_id.is_empty() || authorization_id == *token.principal => {
                ExchangeStep::Done(Identity {
                    principal: token.principal,
                    message: Bytes::new(),
                    lifetime_ms: Some(token.lifetime_ms),
                    extensions,
                })
            }
            Ok(token) => failed_with_text(
                format!(
                    "Authentication failed: Client requested an authorization id ({authorization_id}) that is different \
                     from the token's principal name ({})",
                    token.principal
                ),
                "the authorization id is not the token's principal",
            ),
            Err(TokenRejection::Internal { reason }) => failed(&format!("the token cannot be verified: {reason}")),
            Err(rejection) => {
                let (json, reason) = refusal(&rejection);
                let challenge = Bytes::from(json.clone());
                self.state = State::TokenRefused { json, reason };
                ExchangeStep::Challenge(challenge)
            }
        }
    }
}

/// The error of RFC 7628 in Kafka's form, and the reason for the log.
fn refusal(rejection: &TokenRejection) -> (String, String) {
    match rejection {
        TokenRejection::InsufficientScope { scope } => {
            // The scope comes from the broker's configuration; quotes would break the JSON.
            let is_plain = |c: &char| !matches!(c, '"' | '\\') && !c.is_control();
            let scope: Option<String> = scope.as_ref().map(|scope| scope.chars().filter(is_plain).collect());
            let told = scope.as_ref().map(|scope| format!(", \"scope\":\"{scope}\""));
            let json = format!("{{\"status\":\"insufficient_scope\"{}}}", told.unwrap_or_default());
            let reason = format!("the token lacks a required scope of {}", scope.unwrap_or_default());
            (json, reason)
        }
        TokenRejection::Invalid { reason } | TokenRejection::Internal { reason } => (
            "{\"status\":\"invalid_token\"}".to_owned(),
            format!("the token was refused: {reason}"),
        ),
    }
}

fn done(principal: ByteString, message: Bytes) -> ExchangeStep {
    ExchangeStep::Done(Identity {
        principal,
        message,
        lifetime_ms: None,
        extensions: BTreeMap::new(),
    })
}

fn failed(reason: &str) -> ExchangeStep {
    ExchangeStep::Failed(ExchangeFailure {
        client_text: None,
        reason: reason.to_owned(),
    })
}

fn failed_with_text(client_text: String, reason: &str) -> ExchangeStep {
    ExchangeStep::Failed(ExchangeFailure {
        client_text: Some(client_text),
        reason: reason.to_owned(),
    })
}

/// The driver reports the result of an action that the machine has not asked for.
fn unexpected_report() -> ExchangeStep {
    milena_invariant::violated!("a_sasl_report_follows_its_action");
    failed("internal error of the broker")
}
