//! The client's side of SCRAM.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use subtle::ConstantTimeEq;

use super::{
    CLIENT_ITERATIONS_MAX, ITERATIONS_MIN, NONCE_BYTES,
    keys::{SaltedPassword, hmac},
    messages::{ServerFinalMessage, ServerFirstMessage},
    nonce_text,
};
use crate::sasl::{ClientStep, Mechanism, SaslError, ScramLogin, ScramMechanism, name};

/// Without channel binding and authorization id.
const GS2_HEADER: &str = "n,,";

/// Holds no secret until the salted password has come, and then only the expected signature of the broker.
pub(crate) struct ScramClient {
    mechanism: ScramMechanism,
    client_first_bare: String,
    nonce: String,
    state: State,
}

enum State {
    Start,
    ServerFirst,
    SaltedPassword { server_first: String, nonce: String },
    ServerFinal { signature: Vec<u8> },
    End,
}

impl ScramClient {
    pub(crate) fn new(
        mechanism: ScramMechanism,
        username: &str,
        login: ScramLogin,
        nonce: [u8; NONCE_BYTES],
    ) -> Result<Self, SaslError> {
        if username.is_empty() {
            return Err(SaslError::NoUsername);
        }
        if !username.bytes().all(|byte| matches!(byte, 1..=0x7f)) {
            let mechanism = Mechanism::Scram(mechanism);
            return Err(SaslError::UsernameNotAscii { mechanism });
        }
        let nonce = nonce_text(nonce);
        let extensions = match login {
            ScramLogin::User => "",
            ScramLogin::DelegationToken => ",tokenauth=true",
        };
        Ok(Self {
            mechanism,
            client_first_bare: format!("n={},r={nonce}{extensions}", name::escape(username)),
            nonce,
            state: State::Start,
        })
    }

    #[cfg(test)]
    pub(crate) fn with_nonce(mechanism: ScramMechanism, username: &str, nonce: &str) -> Self {
        Self {
            mechanism,
            client_first_bare: format!("n={username},r={nonce}"),
            nonce: nonce.to_owned(),
            state: State::Start,
        }
    }

    pub(crate) fn mechanism(&self) -> ScramMechanism {
        self.mechanism
    }

    pub(crate) fn start(&mut self) -> Result<ClientStep, SaslError> {
        match std::mem::replace(&mut self.state, State::End) {
            State::Start => {
                self.state = State::ServerFirst;
                Ok(ClientStep::Send(Bytes::from(format!(
                    "{GS2_HEADER}{}",
                    self.client_first_bare
                ))))
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(crate) fn handle_challenge(&mut self, challenge: &[u8]) -> Result<ClientStep, SaslError> {
        let message = std::str::from_utf8(challenge).map_err(|_| self.invalid("it is not text"))?;
        match std::mem::replace(&mut self.state, State::End) {
            State::ServerFirst => self.handle_server_first(message),
            State::ServerFinal { signature } => self.handle_server_final(message, &signature),
            _ => Err(self.unexpected()),
        }
    }

    fn handle_server_first(&mut self, message: &str) -> Result<ClientStep, SaslError> {
        let mechanism = Mechanism::Scram(self.mechanism);
        let server_first = ServerFirstMessage::parse(message).map_err(|problem| self.invalid(problem))?;
        // A nonce without a part of the broker's would let an attacker replay an old conversation.
        if !server_first.nonce.starts_with(&self.nonce) || server_first.nonce.len() == self.nonce.len() {
            return Err(SaslError::ForeignNonce { mechanism });
        }
        let iterations = server_first.iterations;
        if iterations < u64::from(ITERATIONS_MIN) {
            return Err(SaslError::TooFewIterations {
                mechanism,
                iterations,
                minimum: ITERATIONS_MIN,
            });
        }
        let iterations = u32::try_from(iterations)
            .ok()
            .filter(|iterations| *iterations <= CLIENT_ITERATIONS_MAX)
            .ok_or(SaslError::TooManyIterations { mechanism, iterations })?;
        let salt = Bytes::from(server_first.salt);
        self.state = State::SaltedPassword {
            nonce: server_first.nonce.to_owned(),
            server_first: message.to_owned(),
        };
        Ok(ClientStep::DeriveSaltedPassword { salt, iterations })
    }

    pub(crate) fn handle_salted_password(&mut self, password: &SaltedPassword) -> Result<ClientStep, SaslError> {
        let (server_first, nonce) = match std::mem::replace(&mut self.state, State::End) {
            State::SaltedPassword { server_first, nonce } if password.mechanism() == self.mechanism => {
                (server_first, nonce)
            }
            _ => return Err(self.unexpected()),
        };
        let without_proof = format!("c={},r={nonce}", STANDARD.encode(GS2_HEADER));
        let auth_message = format!("{},{server_first},{without_proof}", self.client_first_bare);
        let proof = password.client_proof(auth_message.as_bytes());
        let signature = hmac(self.mechanism, &password.server_key(), &[auth_message.as_bytes()]);
        self.state = State::ServerFinal { signature };
        let message = format!("{without_proof},p={}", STANDARD.encode(proof));
        Ok(ClientStep::Send(Bytes::from(message)))
    }

    fn handle_server_final(&self, message: &str, expected: &[u8]) -> Result<ClientStep, SaslError> {
        match ServerFinalMessage::parse(message).map_err(|problem| self.invalid(problem))? {
            ServerFinalMessage::Error(error) => Err(SaslError::ServerError {
                mechanism: Mechanism::Scram(self.mechanism),
                error: error.to_owned(),
            }),
            ServerFinalMessage::Signature(signature) if bool::from(signature.ct_eq(expected)) => Ok(ClientStep::Done),
            ServerFinalMessage::Signature(_) => Err(SaslError::ServerSignature),
        }
    }

    fn invalid(&self, problem: &'static str) -> SaslError {
        let mechanism = Mechanism::Scram(self.mechanism);
        SaslError::InvalidMessage { mechanism, problem }
    }

    fn unexpected(&self) -> SaslError {
        let mechanism = Mechanism::Scram(self.mechanism);
        SaslError::UnexpectedMessage { mechanism }
    }
}
