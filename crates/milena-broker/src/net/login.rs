//! The driver of the SASL log-in of a connection, and of its renewal.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use milena_machines::sasl::{
    AuthenticationFailure, FailureResponse, NONCE_BYTES, RequestVerdict, SaslResponse, ServerAction,
    ServerAuthenticator, Session,
};
use milena_wire::{api::ApiKey, errors::ErrorCode, frame::RequestFrame};
use tokio::time::Instant;

use super::{
    InboundRequest, Peer,
    endpoint::SaslEndpoint,
    failures::{ConnectionFailure, FailureKind},
    frames::{FrameReader, ReadFrameError},
    transport::Transport,
    verification,
};
use crate::{
    handlers::{self, Outcome, RequestContext},
    node::Node,
};

/// The log-in of one connection.
#[derive(Debug)]
pub(super) struct Login {
    authenticator: ServerAuthenticator,
    sasl: Arc<SaslEndpoint>,
    /// The start of the machine's clock.
    began: Instant,
}

/// The parts of a connection that a log-in uses.
pub(super) struct LoginIo<'a> {
    pub(super) node: &'a Arc<Node>,
    pub(super) peer: &'a Peer,
    pub(super) transport: &'a mut Transport,
    pub(super) frames: &'a mut FrameReader,
}

/// The end of a log-in that did not succeed.
#[derive(Debug)]
pub(super) enum LoginError {
    /// The client has gone, or its connection is broken.
    Disconnected(Option<io::Error>),
    Failed(AuthenticationFailure),
    /// The client does not follow the protocol.
    Refused(AuthenticationFailure),
    /// The client speaks another protocol.
    WrongProtocol(ConnectionFailure),
    Timeout(Duration),
}

impl Login {
    pub(super) fn new(sasl: Arc<SaslEndpoint>, node: &Node) -> Self {
        Self {
            authenticator: ServerAuthenticator::new(sasl.machine(node.scram.unknown_user_key())),
            sasl,
            began: Instant::now(),
        }
    }

    /// Whether a request may be served now.
    pub(super) fn verdict(&mut self, key: ApiKey) -> RequestVerdict {
        let now_ms = self.now_ms();
        self.authenticator.handle_request(key, now_ms)
    }

    /// Runs the exchange to its end. `first` is a frame that was read already.
    pub(super) async fn run(&mut self, first: Option<Bytes>, mut io: LoginIo<'_>) -> Result<Session, LoginError> {
        let mut action = match first {
            Some(frame) => self.authenticator.handle_frame(frame, self.now_ms()),
            None => self.next_frame(&mut io).await?,
        };
        loop {
            action = match action {
                ServerAction::ServeApiVersions(request) => {
                    let error = serve_api_versions(&mut io, request).await?;
                    self.authenticator.handle_api_versions(error);
                    self.next_frame(&mut io).await?
                }
                ServerAction::Respond(response) => {
                    send(&mut io, &response).await?;
                    self.next_frame(&mut io).await?
                }
                ServerAction::VerifyPlain(credentials) => {
                    let is_valid = verification::verify_plain(&self.sasl, &credentials);
                    self.authenticator.handle_plain(is_valid, self.now_ms())
                }
                ServerAction::LookupScram { mechanism, username } => {
                    let credential = io.node.scram.find(mechanism, &username);
                    let nonce = random_nonce().ok_or(LoginError::Disconnected(None))?;
                    self.authenticator.handle_scram(credential, nonce, self.now_ms())
                }
                ServerAction::VerifyToken(token) => {
                    let result = io.node.tokens.verify(&io.peer.listener, &token).await;
                    self.authenticator.handle_token(result, self.now_ms())
                }
                ServerAction::Complete { response, session } => {
                    send(&mut io, &response).await?;
                    return Ok(session);
                }
                ServerAction::Fail { response, failure } => {
                    fail(&mut io, response).await?;
                    return Err(LoginError::Failed(failure));
                }
                ServerAction::Close(failure) => return Err(LoginError::Refused(failure)),
            };
        }
    }

    async fn next_frame(&mut self, io: &mut LoginIo<'_>) -> Result<ServerAction, LoginError> {
        match io.frames.next(io.transport).await {
            Ok(Some(frame)) => {
                io.node.metrics.bytes_received(frame.bytes.len());
                Ok(self.authenticator.handle_frame(frame.bytes.clone(), self.now_ms()))
            }
            Ok(None) => Err(LoginError::Disconnected(None)),
            Err(ReadFrameError::Frame(_)) => match ConnectionFailure::sniff(io.frames.head()) {
                Some(failure) => Err(LoginError::WrongProtocol(failure)),
                None => Ok(self.authenticator.handle_oversized_frame()),
            },
            Err(ReadFrameError::Io(error)) => Err(LoginError::Disconnected(Some(error))),
            Err(error @ (ReadFrameError::Stalled(_) | ReadFrameError::TooSlow)) => {
                Err(LoginError::Disconnected(Some(io::Error::other(error.to_string()))))
            }
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl LoginError {
    /// The failure for the log and the metrics; `None` for a client that has just gone.
    pub(super) fn failure(&self) -> Option<ConnectionFailure> {
        match self {
            Self::Disconnected(error) => {
                let error = error.as_ref().map(ToString::to_string);
                tracing::debug!(
                    event = "login_not_finished",
                    error,
                    "connection ended during its log-in"
                );
                None
            }
            Self::Failed(failure) => Some(ConnectionFailure::new(FailureKind::Login, failure.to_string())),
            Self::Refused(failure) => Some(ConnectionFailure::new(FailureKind::NoLogin, failure.to_string())),
            Self::Timeout(limit) => {
                let reason = format!("no log-in within {limit:?} (milena.authentication.timeout.ms)");
                Some(ConnectionFailure::new(FailureKind::Timeout, reason))
            }
            Self::WrongProtocol(failure) => Some(ConnectionFailure::new(failure.kind, failure.reason.clone())),
        }
    }
}

/// Serves ApiVersions before the log-in and returns the error of its response.
async fn serve_api_versions(io: &mut LoginIo<'_>, request: RequestFrame) -> Result<ErrorCode, LoginError> {
    let received = Instant::now();
    let request = InboundRequest::unthrottled(request);
    let outcome = handlers::handle(&RequestContext {
        node: io.node,
        peer: io.peer,
        request: &request,
    });
    let Outcome::Ready(response) = outcome else {
        return Err(LoginError::Disconnected(None));
    };
    let errors = response.errors.clone();
    let error = errors.first().and_then(|code| ErrorCode::from_code(*code));
    io.node.metrics.bytes_sent(response.size());
    io.transport.send(response).await.map_err(disconnected)?;
    io.node.metrics.request_ended(request.key, received.elapsed(), &errors);
    Ok(error.unwrap_or(ErrorCode::None))
}

async fn send(io: &mut LoginIo<'_>, response: &SaslResponse) -> Result<(), LoginError> {
    io.transport.write_all(&response.bytes).await.map_err(disconnected)?;
    io.node.metrics.bytes_sent(response.bytes.len());
    if let Some(key) = response.key {
        let errors: &[i16] = match response.error {
            ErrorCode::None => &[],
            error => &[error.code()],
        };
        io.node.metrics.request_ended(key, Duration::ZERO, errors);
    }
    Ok(())
}

/// Waits, so that passwords cannot be tried fast, and sends the response of a failed log-in.
async fn fail(io: &mut LoginIo<'_>, response: Option<FailureResponse>) -> Result<(), LoginError> {
    let delay = Duration::from_millis(io.node.config().failed_authentication_delay_ms.into());
    tokio::time::sleep(delay).await;
    match response {
        None => Ok(()),
        Some(FailureResponse::Sasl(response)) => send(io, &response).await,
        Some(FailureResponse::Request { request, error }) => {
            let request = InboundRequest::unthrottled(request);
            let cx = RequestContext {
                node: io.node,
                peer: io.peer,
                request: &request,
            };
            match handlers::refuse(&cx, error) {
                Some(response) => io.transport.send(response).await.map_err(disconnected),
                None => Ok(()),
            }
        }
    }
}

fn disconnected(error: io::Error) -> LoginError {
    LoginError::Disconnected(Some(error))
}

/// Random bytes of the system; `None` if it has none, which ends the log-in.
fn random_nonce() -> Option<[u8; NONCE_BYTES]> {
    let mut nonce = [0; NONCE_BYTES];
    let filled = rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty());
    (filled == Ok(NONCE_BYTES)).then_some(nonce)
}
