//! The requests of one log-in: SaslHandshake, then SaslAuthenticate until the exchange is done.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse},
};

use super::{ClientExchange, ClientStep};
use crate::sasl::{Mechanism, SaltedPassword, SaslError};

/// One log-in or re-authentication of a connection.
///
/// Order of calls: `handshake_request`, `handle_handshake`, then `handle_authenticate` or `handle_salted_password` as the
/// actions ask for, until [`ClientAction::Done`] or an error. After an error the connection is of no use.
#[derive(Debug)]
pub struct ClientAuthenticator {
    exchange: ClientExchange,
    is_done: bool,
}

/// The next action of the driver.
#[derive(Clone, PartialEq)]
pub enum ClientAction {
    /// Send it, and give the response to [`ClientAuthenticator::handle_authenticate`]. May contain a password or token.
    Authenticate(SaslAuthenticateRequest),
    /// As [`ClientStep::DeriveSaltedPassword`].
    DeriveSaltedPassword { salt: Bytes, iterations: u32 },
    Done {
        /// The broker closes the connection after this time unless the client re-authenticates; `None` if it never does.
        session_lifetime_ms: Option<u64>,
    },
}

/// Without the message.
impl fmt::Debug for ClientAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Authenticate(_) => f.write_str("Authenticate([hidden])"),
            Self::DeriveSaltedPassword { iterations, .. } => write!(f, "DeriveSaltedPassword({iterations} iterations)"),
            Self::Done { session_lifetime_ms } => write!(f, "Done({session_lifetime_ms:?})"),
        }
    }
}

/// The reason why a log-in failed. Another attempt with the same credentials would fail too.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientAuthError {
    #[error(
        "client SASL mechanism '{mechanism}' not enabled in the server, enabled mechanisms are [{}]",
        enabled.join(", ")
    )]
    MechanismNotEnabled { mechanism: Mechanism, enabled: Vec<String> },
    #[error("the broker refused the log-in with {mechanism}: {text}")]
    Rejected {
        mechanism: Mechanism,
        error: ErrorCode,
        text: String,
    },
    #[error(
        "the broker refuses to log in with {mechanism} in this state of the connection (ILLEGAL_SASL_STATE): {text}"
    )]
    IllegalState { mechanism: Mechanism, text: String },
    #[error(transparent)]
    Exchange(#[from] SaslError),
}

impl ClientAuthenticator {
    pub fn new(exchange: ClientExchange) -> Self {
        Self {
            exchange,
            is_done: false,
        }
    }

    pub fn mechanism(&self) -> Mechanism {
        self.exchange.mechanism()
    }

    /// The first request, for version 1: in version 0 tokens have no header, and errors no text.
    pub fn handshake_request(&self) -> SaslHandshakeRequest {
        SaslHandshakeRequest {
            mechanism: ByteString::from_static(self.mechanism().name()),
        }
    }

    pub fn handle_handshake(&mut self, response: &SaslHandshakeResponse) -> Result<ClientAction, ClientAuthError> {
        let mechanism = self.mechanism();
        match error_code(response.error_code) {
            ErrorCode::None => {
                let step = self.exchange.start()?;
                Ok(self.action(step, None))
            }
            ErrorCode::UnsupportedSaslMechanism => Err(ClientAuthError::MechanismNotEnabled {
                mechanism,
                enabled: response.mechanisms.iter().map(ToString::to_string).collect(),
            }),
            ErrorCode::IllegalSaslState => Err(ClientAuthError::IllegalState {
                mechanism,
                text: "SaslHandshake is not expected now".to_owned(),
            }),
            error => Err(self.rejected(error, None)),
        }
    }

    pub fn handle_authenticate(
        &mut self,
        response: &SaslAuthenticateResponse,
    ) -> Result<ClientAction, ClientAuthError> {
        match error_code(response.error_code) {
            ErrorCode::None if self.is_done => {
                let mechanism = self.mechanism();
                Err(SaslError::UnexpectedMessage { mechanism }.into())
            }
            ErrorCode::None => {
                let step = self.exchange.handle_challenge(&response.auth_bytes)?;
                let lifetime_ms = u64::try_from(response.session_lifetime_ms).unwrap_or(0);
                Ok(self.action(step, Some(lifetime_ms).filter(|lifetime_ms| *lifetime_ms > 0)))
            }
            ErrorCode::IllegalSaslState => Err(ClientAuthError::IllegalState {
                mechanism: self.mechanism(),
                text: text(response.error_message.as_deref(), ErrorCode::IllegalSaslState),
            }),
            error => Err(self.rejected(error, response.error_message.as_deref())),
        }
    }

    pub fn handle_salted_password(&mut self, password: &SaltedPassword) -> Result<ClientAction, ClientAuthError> {
        let step = self.exchange.handle_salted_password(password)?;
        Ok(self.action(step, None))
    }

    fn action(&mut self, step: ClientStep, session_lifetime_ms: Option<u64>) -> ClientAction {
        match step {
            ClientStep::Send(auth_bytes) => ClientAction::Authenticate(SaslAuthenticateRequest {
                auth_bytes,
                ..Default::default()
            }),
            ClientStep::DeriveSaltedPassword { salt, iterations } => {
                ClientAction::DeriveSaltedPassword { salt, iterations }
            }
            ClientStep::Done => {
                self.is_done = true;
                ClientAction::Done { session_lifetime_ms }
            }
        }
    }

    fn rejected(&self, error: ErrorCode, message: Option<&str>) -> ClientAuthError {
        ClientAuthError::Rejected {
            mechanism: self.mechanism(),
            error,
            text: text(message, error),
        }
    }
}

/// The broker's text, or the name of the error if it sent none.
fn text(message: Option<&str>, error: ErrorCode) -> String {
    match message.filter(|message| !message.is_empty()) {
        Some(message) => message.to_owned(),
        None => error.to_string(),
    }
}

fn error_code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}
