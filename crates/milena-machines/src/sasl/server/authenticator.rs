//! The states of a connection to a SASL listener.
//!
//! The states are `Initial`, `HandshakeOrVersions`, `Handshake`, `Authenticate` and `Complete`, in this order. Before
//! `Authenticate`, any request but ApiVersions and SaslHandshake closes the connection. A SaslHandshake in `Complete`
//! leads to `Authenticate` again, if the session has an end.
//!
//! Kafka's rules, with one exception: a log-in with bare tokens (handshake version 0) that fails is delayed as others are.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use milena_invariant::violated;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    frame::{self, RequestFrame},
    message::Response,
    messages::{SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse},
};

use super::{
    AuthenticationFailure, FailureResponse, Reauthentication, RequestVerdict, SaslResponse, SaslServerConfig,
    ServerAction, Session, TokenRejection, VerifiedToken,
    exchange::{ExchangeFailure, ExchangeStep, Identity, ServerExchange},
};
use crate::sasl::{Mechanism, ScramCredential, scram};

/// A client re-authenticates at most once in this time.
const REAUTHENTICATION_INTERVAL_MS_MIN: u64 = 1000;

/// The log-in of one connection. Every `handle_*` but [`handle_request`](Self::handle_request) leads to one action; the
/// driver carries it out before the next call. `now_ms` is a monotonic clock.
#[derive(Debug)]
pub struct ServerAuthenticator {
    config: Arc<SaslServerConfig>,
    state: State,
    session: Option<Session>,
    /// The end of the session; `None` if it has none.
    expires_at_ms: Option<u64>,
    /// The start of the last re-authentication.
    reauthenticated_at_ms: Option<u64>,
    client_reauthenticates: bool,
}

enum State {
    /// No valid request yet.
    Initial,
    HandshakeOrVersions,
    /// The driver serves an ApiVersions request.
    Versions,
    /// After ApiVersions.
    Handshake,
    Reauthenticate,
    /// The client has asked to re-authenticate with another mechanism. The next frame fails.
    BadMechanism {
        requested: Mechanism,
    },
    Authenticate(Login),
    Complete,
    Failed,
}

struct Login {
    exchange: ServerExchange,
    tokens: Tokens,
    /// The SaslAuthenticate request whose response is due.
    request: Option<PendingRequest>,
}

/// The form of the client's tokens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tokens {
    /// A length and the token, after a handshake of version 0.
    Bare,
    /// SaslAuthenticate requests.
    Requests,
}

#[derive(Clone, Copy)]
struct PendingRequest {
    version: i16,
    correlation_id: i32,
}

impl ServerAuthenticator {
    pub fn new(config: Arc<SaslServerConfig>) -> Self {
        Self {
            config,
            state: State::Initial,
            session: None,
            expires_at_ms: None,
            reauthenticated_at_ms: None,
            client_reauthenticates: false,
        }
    }

    /// Whether the next frame of the client belongs to the log-in or its renewal.
    pub fn wants_frame(&self) -> bool {
        match &self.state {
            State::Authenticate(login) => login.exchange.wants_message(),
            State::Versions | State::Complete | State::Failed => false,
            State::Initial
            | State::HandshakeOrVersions
            | State::Handshake
            | State::Reauthenticate
            | State::BadMechanism { .. } => true,
        }
    }

    /// The session, once the connection is logged in.
    pub fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }

    /// Takes a frame without its length, while [`wants_frame`](Self::wants_frame).
    pub fn handle_frame(&mut self, frame: Bytes, now_ms: u64) -> ServerAction {
        match &self.state {
            State::Initial | State::HandshakeOrVersions | State::Handshake | State::Reauthenticate => {
                self.handle_first_requests(frame)
            }
            State::BadMechanism { requested } => {
                let reason = format!("the client asks for {requested}, which the session does not have");
                self.fail(None, reason)
            }
            State::Authenticate(login) if login.exchange.wants_message() => match login.tokens {
                Tokens::Bare => self.handle_message(&frame, now_ms),
                Tokens::Requests => self.handle_authenticate_request(frame, now_ms),
            },
            State::Authenticate(_) | State::Versions | State::Complete | State::Failed => {
                violated!("a_frame_reaches_the_log_in_that_waits_for_one");
                self.close("internal error of the broker")
            }
        }
    }

    /// Fails the log-in: the client announces a frame with an invalid length.
    pub fn handle_oversized_frame(&mut self) -> ServerAction {
        let reason = "a frame is longer than sasl.server.max.receive.size, or its length is negative";
        self.fail(None, reason.to_owned())
    }

    /// Reports the error of the response to [`ServerAction::ServeApiVersions`]. After an error the client may ask again.
    pub fn handle_api_versions(&mut self, error: ErrorCode) {
        match &self.state {
            State::Versions if error == ErrorCode::None => self.state = State::Handshake,
            State::Versions => self.state = State::HandshakeOrVersions,
            _ => violated!("an_api_versions_report_follows_its_action"),
        }
    }

    /// Reports whether the user name and the password of [`ServerAction::VerifyPlain`] are right.
    pub fn handle_plain(&mut self, is_valid: bool, now_ms: u64) -> ServerAction {
        self.handle_report(now_ms, |exchange, _| exchange.handle_plain(is_valid))
    }

    /// Reports the credential of the user of [`ServerAction::LookupScram`], `None` if there is no such user.
    pub fn handle_scram(
        &mut self,
        credential: Option<ScramCredential>,
        nonce: [u8; scram::NONCE_BYTES],
        now_ms: u64,
    ) -> ServerAction {
        let nonce = scram::nonce_text(nonce);
        self.handle_report(now_ms, |exchange, config| {
            exchange.handle_scram(credential, &nonce, &config.fake_salt_key)
        })
    }

    /// Reports the result of [`ServerAction::VerifyToken`].
    pub fn handle_token(&mut self, result: Result<VerifiedToken, TokenRejection>, now_ms: u64) -> ServerAction {
        self.handle_report(now_ms, |exchange, _| exchange.handle_token(result))
    }

    /// Decides about a request on a logged-in connection. The driver calls it for each one, before it is begun.
    pub fn handle_request(&mut self, key: ApiKey, now_ms: u64) -> RequestVerdict {
        if !matches!(self.state, State::Complete) {
            violated!("requests_are_served_after_the_log_in");
            return RequestVerdict::Expired;
        }
        let Some(expires_at_ms) = self.expires_at_ms else {
            return RequestVerdict::Serve;
        };
        let is_too_early = self
            .reauthenticated_at_ms
            .is_some_and(|last_ms| now_ms.saturating_sub(last_ms) < REAUTHENTICATION_INTERVAL_MS_MIN);
        if key == ApiKey::SaslHandshake && !is_too_early {
            self.reauthenticated_at_ms = Some(now_ms);
            self.state = State::Reauthenticate;
            RequestVerdict::Reauthenticate
        } else if now_ms > expires_at_ms {
            RequestVerdict::Expired
        } else {
            RequestVerdict::Serve
        }
    }

    /// ApiVersions and SaslHandshake. The key is looked at before the body is parsed.
    fn handle_first_requests(&mut self, frame: Bytes) -> ServerAction {
        let request = match RequestFrame::parse(frame) {
            Ok(request) => request,
            Err(error) => return self.close_invalid(&error.to_string()),
        };
        match (request.key, &self.state) {
            (ApiKey::SaslHandshake, _) => self.handle_handshake(&request),
            (ApiKey::ApiVersions, State::Initial | State::HandshakeOrVersions) => {
                self.state = State::Versions;
                ServerAction::ServeApiVersions(request)
            }
            (ApiKey::ApiVersions, _) => self.close("a second ApiVersions request arrived after the first succeeded"),
            (key, _) => self.close_invalid(&format!("{key} is not allowed before the log-in")),
        }
    }

    fn handle_handshake(&mut self, request: &RequestFrame) -> ServerAction {
        let handshake: SaslHandshakeRequest = match request.body() {
            Ok(handshake) => handshake,
            Err(error) => return self.close_invalid(&error.to_string()),
        };
        let respond = |error: ErrorCode| {
            let response = SaslHandshakeResponse {
                error_code: error.code(),
                mechanisms: self.config.names(),
            };
            encode(&response, error, request.version, request.correlation_id)
        };
        let Some(mechanism) = self.config.enabled(&handshake.mechanism) else {
            let response = respond(ErrorCode::UnsupportedSaslMechanism).map(FailureResponse::Sasl);
            let name: String = handshake.mechanism.chars().take(MECHANISM_CHARS_MAX).collect();
            return self.fail(response, format!("the mechanism {name:?} is not enabled"));
        };
        let Some(response) = respond(ErrorCode::None) else {
            return self.close("the handshake's response cannot be encoded");
        };
        let previous = self.session.as_ref().map(|session| session.mechanism);
        self.state = if previous.is_some_and(|previous| previous != mechanism) {
            State::BadMechanism { requested: mechanism }
        } else {
            State::Authenticate(Login {
                exchange: ServerExchange::new(mechanism),
                tokens: if request.version == 0 {
                    Tokens::Bare
                } else {
                    Tokens::Requests
                },
                request: None,
            })
        };
        ServerAction::Respond(response)
    }

    fn handle_authenticate_request(&mut self, frame: Bytes, now_ms: u64) -> ServerAction {
        let request = match RequestFrame::parse(frame) {
            Ok(request) => request,
            Err(error) => return self.close(&error.to_string()),
        };
        if request.key != ApiKey::SaslAuthenticate {
            let reason = format!("{} arrived in place of SaslAuthenticate", request.key);
            let error = ErrorCode::IllegalSaslState;
            return self.fail(Some(FailureResponse::Request { request, error }), reason);
        }
        let body: SaslAuthenticateRequest = match request.body() {
            Ok(body) => body,
            Err(error) => return self.close(&error.to_string()),
        };
        self.client_reauthenticates |= request.version > 0;
        if let State::Authenticate(login) = &mut self.state {
            login.request = Some(PendingRequest {
                version: request.version,
                correlation_id: request.correlation_id,
            });
        }
        self.handle_message(&body.auth_bytes, now_ms)
    }

    fn handle_message(&mut self, message: &[u8], now_ms: u64) -> ServerAction {
        let State::Authenticate(login) = &mut self.state else {
            return self.close("internal error of the broker");
        };
        let step = login.exchange.handle_message(message);
        self.act(step, now_ms)
    }

    fn handle_report(
        &mut self,
        now_ms: u64,
        report: impl FnOnce(&mut ServerExchange, &SaslServerConfig) -> ExchangeStep,
    ) -> ServerAction {
        let State::Authenticate(login) = &mut self.state else {
            violated!("a_sasl_report_follows_its_action");
            return self.close("internal error of the broker");
        };
        let step = report(&mut login.exchange, &self.config);
        self.act(step, now_ms)
    }

    fn act(&mut self, step: ExchangeStep, now_ms: u64) -> ServerAction {
        match step {
            ExchangeStep::VerifyPlain(credentials) => ServerAction::VerifyPlain(credentials),
            ExchangeStep::LookupScram { mechanism, username } => ServerAction::LookupScram { mechanism, username },
            ExchangeStep::VerifyToken(token) => ServerAction::VerifyToken(token),
            ExchangeStep::Challenge(message) => match self.token_response(message, 0) {
                Some(response) => ServerAction::Respond(response),
                None => self.close("the response cannot be encoded"),
            },
            ExchangeStep::Done(identity) => self.complete(identity, now_ms),
            ExchangeStep::Failed(failure) => self.fail_exchange(failure),
        }
    }

    fn complete(&mut self, identity: Identity, now_ms: u64) -> ServerAction {
        let State::Authenticate(login) = &self.state else {
            return self.close("internal error of the broker");
        };
        let mechanism = login.exchange.mechanism();
        if let Some(previous) = self.session.as_ref().map(|session| &session.principal)
            && *previous != identity.principal
        {
            let text = format!(
                "Cannot change principals during re-authentication from User.{previous}: User.{}",
                identity.principal
            );
            let reason = text.clone();
            return self.fail_exchange(ExchangeFailure {
                client_text: Some(text),
                reason,
            });
        }
        let limits = [self.config.session_ms_max(mechanism), identity.lifetime_ms];
        let lifetime_ms = limits.into_iter().flatten().min();
        let sent_ms = lifetime_ms.map_or(0, |lifetime_ms| i64::try_from(lifetime_ms).unwrap_or(i64::MAX));
        let Some(response) = self.token_response(identity.message, sent_ms) else {
            return self.close("the response cannot be encoded");
        };
        let started_ms = self.reauthenticated_at_ms.filter(|_| self.session.is_some());
        let session = Session {
            principal: identity.principal,
            mechanism,
            lifetime_ms,
            reauthentication: started_ms.map(|started_ms| Reauthentication {
                latency_ms: now_ms.saturating_sub(started_ms),
            }),
            client_reauthenticates: self.client_reauthenticates,
            extensions: identity.extensions,
        };
        self.expires_at_ms = lifetime_ms.map(|lifetime_ms| now_ms.saturating_add(lifetime_ms));
        self.session = Some(session.clone());
        self.state = State::Complete;
        ServerAction::Complete { response, session }
    }

    fn fail_exchange(&mut self, failure: ExchangeFailure) -> ServerAction {
        let text = failure.client_text.unwrap_or_else(|| {
            let mechanism = self.mechanism().map_or("", Mechanism::name);
            let kind = if self.session.is_some() {
                "re-authentication"
            } else {
                "authentication"
            };
            format!("Authentication failed during {kind} due to invalid credentials with SASL mechanism {mechanism}")
        });
        let error = ErrorCode::SaslAuthenticationFailed;
        let response = self.take_request().and_then(|request| {
            let response = SaslAuthenticateResponse {
                error_code: error.code(),
                error_message: Some(text.into()),
                ..Default::default()
            };
            encode(&response, error, request.version, request.correlation_id)
        });
        self.fail(response.map(FailureResponse::Sasl), failure.reason)
    }

    /// The response with a message of the mechanism.
    fn token_response(&mut self, message: Bytes, session_lifetime_ms: i64) -> Option<SaslResponse> {
        let State::Authenticate(login) = &self.state else {
            return None;
        };
        if login.tokens == Tokens::Bare {
            return bare_token(&message);
        }
        let request = self.take_request()?;
        let response = SaslAuthenticateResponse {
            error_message: None,
            auth_bytes: message,
            // Version 0 has no such field.
            session_lifetime_ms: if request.version == 0 { 0 } else { session_lifetime_ms },
            ..Default::default()
        };
        encode(&response, ErrorCode::None, request.version, request.correlation_id)
    }

    fn take_request(&mut self) -> Option<PendingRequest> {
        match &mut self.state {
            State::Authenticate(login) => login.request.take(),
            _ => None,
        }
    }

    fn fail(&mut self, response: Option<FailureResponse>, reason: String) -> ServerAction {
        let failure = self.end(reason);
        ServerAction::Fail { response, failure }
    }

    fn close(&mut self, reason: &str) -> ServerAction {
        ServerAction::Close(self.end(reason.to_owned()))
    }

    /// Closes because of a request that cannot be one of a log-in.
    fn close_invalid(&mut self, problem: &str) -> ServerAction {
        if matches!(self.state, State::Initial) {
            self.close(&format!(
                "the first request is no SASL handshake ({problem}): the client may have the wrong security.protocol, or \
                 is no Kafka client"
            ))
        } else {
            self.close(problem)
        }
    }

    fn end(&mut self, reason: String) -> AuthenticationFailure {
        let failure = AuthenticationFailure {
            mechanism: self.mechanism(),
            reauthentication: self.session.is_some(),
            reason,
        };
        self.state = State::Failed;
        failure
    }

    fn mechanism(&self) -> Option<Mechanism> {
        match &self.state {
            State::Authenticate(login) => Some(login.exchange.mechanism()),
            _ => self.session.as_ref().map(|session| session.mechanism),
        }
    }
}

/// Characters of a mechanism's name in a log line.
const MECHANISM_CHARS_MAX: usize = 40;

/// Without the exchange.
impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Initial => "Initial",
            Self::HandshakeOrVersions => "HandshakeOrVersions",
            Self::Versions => "Versions",
            Self::Handshake => "Handshake",
            Self::Reauthenticate => "Reauthenticate",
            Self::BadMechanism { .. } => "BadMechanism",
            Self::Authenticate(_) => "Authenticate",
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        })
    }
}

fn encode<R: Response>(response: &R, error: ErrorCode, version: i16, correlation_id: i32) -> Option<SaslResponse> {
    let frame = frame::encode_response(response, version, correlation_id).ok()?;
    Some(SaslResponse {
        key: Some(R::KEY),
        error,
        bytes: frame.into_bytes(),
    })
}

fn bare_token(message: &[u8]) -> Option<SaslResponse> {
    let mut bytes = BytesMut::with_capacity(frame::LENGTH_SIZE + message.len());
    bytes.put_i32(i32::try_from(message.len()).ok()?);
    bytes.put_slice(message);
    Some(SaslResponse {
        key: None,
        error: ErrorCode::None,
        bytes: bytes.freeze(),
    })
}
