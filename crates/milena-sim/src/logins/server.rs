//! The broker's end of a connection: the driver around its machine.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use milena_machines::sasl::{
    FailureResponse, Mechanism, RequestVerdict, SaslServerConfig, ScramCredential, ServerAction, ServerAuthenticator,
    Session, TokenRejection, VerifiedToken,
};
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    frame::{self, LENGTH_SIZE, RequestFrame},
    messages::{ApiVersionsResponse, HeartbeatRequest, HeartbeatResponse},
};

use super::{Conn, Event, World, checks::CheckedSession, plan::Plan};
use crate::Mutation;

/// The delay of failed log-ins.
const FAILURE_DELAY_MS: i64 = 100;

/// The answer to a question of the machine.
#[derive(Debug)]
pub(super) enum Report {
    Plain(bool),
    Scram(Option<ScramCredential>),
    Token(Result<VerifiedToken, TokenRejection>),
}

#[derive(Debug)]
pub(super) struct Connection {
    conn: Conn,
    config: Arc<SaslServerConfig>,
    machine: ServerAuthenticator,
    inbox: VecDeque<Bytes>,
    /// Responses that are not sent yet, in the order of their requests.
    pending: VecDeque<Bytes>,
    /// Whether the response at the front is being made.
    is_serving: bool,
    /// Whether the machine waits for a report or a delay: nothing is read.
    is_busy: bool,
    /// The handshake that renews the session, until all pending responses are sent.
    renewal: Option<Bytes>,
    is_closed: bool,
    session: Option<CheckedSession>,
}

impl Connection {
    pub(super) fn new(conn: Conn, plan: &Plan) -> Self {
        let config = Arc::new(SaslServerConfig {
            mechanisms: Mechanism::ALL.map(|mechanism| (mechanism, plan.session_ms)).to_vec(),
            fake_salt_key: [5; 32],
        });
        Self {
            conn,
            machine: ServerAuthenticator::new(Arc::clone(&config)),
            config,
            inbox: VecDeque::new(),
            pending: VecDeque::new(),
            is_serving: false,
            is_busy: false,
            renewal: None,
            is_closed: false,
            session: None,
        }
    }

    /// Whether nothing of the connection is left to do.
    pub(super) fn is_at_rest(&self) -> bool {
        self.is_closed || (self.inbox.is_empty() && self.pending.is_empty() && !self.is_busy && self.renewal.is_none())
    }

    pub(super) fn receive(&mut self, frame: Bytes, world: &mut World) {
        if !self.is_closed {
            self.inbox.push_back(frame.slice(LENGTH_SIZE..));
            self.read(world);
        }
    }

    pub(super) fn happen(&mut self, event: Event, world: &mut World) {
        if self.is_closed {
            return;
        }
        match event {
            Event::Reported(_, report) => {
                self.is_busy = false;
                let now_ms = world.now_ms();
                let action = match report {
                    Report::Plain(is_valid) => self.machine.handle_plain(is_valid, now_ms),
                    Report::Scram(credential) => {
                        let nonce = world.random.next_u64().to_be_bytes();
                        let nonce = std::array::from_fn(|index| nonce.get(index % 8).copied().unwrap_or(0));
                        self.machine.handle_scram(credential, nonce, now_ms)
                    }
                    Report::Token(result) => self.machine.handle_token(result, now_ms),
                };
                self.act(action, world);
                self.read(world);
            }
            Event::DelayOver(_, response) => {
                if let Some(response) = response {
                    world.send_to_client(self.conn, Event::ToClient(self.conn, response));
                }
                self.close(world);
            }
            Event::Served(_) => {
                self.is_serving = false;
                if let Some(response) = self.pending.pop_front() {
                    world.send_to_client(self.conn, Event::ToClient(self.conn, response));
                }
                self.serve_next(world);
                self.read(world);
            }
            Event::ServerHearsClose(_) => {
                self.is_closed = true;
                world.note(|| format!("{:?}: the broker hears of its end", self.conn));
            }
            _ => {}
        }
    }

    /// Reads frames as long as the driver may.
    fn read(&mut self, world: &mut World) {
        while !self.is_closed && !self.is_busy {
            if self.renewal.is_some() {
                let may_begin = self.pending.is_empty() || world.plan.mutation == Some(Mutation::RenewBeforeResponses);
                let Some(frame) = self.renewal.take_if(|_| may_begin) else {
                    return;
                };
                if world.plan.mutation == Some(Mutation::ForgetPrincipal) {
                    self.machine = ServerAuthenticator::new(Arc::clone(&self.config));
                }
                let action = self.machine.handle_frame(frame, world.now_ms());
                self.act(action, world);
                continue;
            }
            let Some(frame) = self.inbox.pop_front() else {
                return;
            };
            let is_request =
                || RequestFrame::parse(frame.clone()).is_ok_and(|request| request.key == ApiKey::Heartbeat);
            if world.plan.mutation == Some(Mutation::ServeBeforeLogin) && is_request() {
                self.begin(frame, world);
            } else if self.machine.wants_frame() {
                let action = self.machine.handle_frame(frame, world.now_ms());
                self.act(action, world);
            } else {
                self.begin(frame, world);
            }
        }
    }

    /// Begins a request after the log-in.
    fn begin(&mut self, frame: Bytes, world: &mut World) {
        let Ok(request) = RequestFrame::parse(frame.clone()) else {
            return world.checks.demand(false, || "a client sent garbage".to_owned());
        };
        let verdict = match world.plan.mutation {
            Some(Mutation::ForgetSessionEnd | Mutation::ServeBeforeLogin) if request.key == ApiKey::Heartbeat => {
                RequestVerdict::Serve
            }
            _ => self.machine.handle_request(request.key, world.now_ms()),
        };
        match verdict {
            RequestVerdict::Serve if request.key == ApiKey::Heartbeat => self.serve(&request, world),
            // A renewal that comes too early. A client that follows the rules never does that.
            RequestVerdict::Serve => {
                world
                    .checks
                    .demand(false, || format!("{:?}: {} in the wrong state", self.conn, request.key));
            }
            RequestVerdict::Reauthenticate => self.renewal = Some(frame),
            RequestVerdict::Expired => {
                world.note(|| format!("{:?}: the session has ended", self.conn));
                self.close(world);
            }
        }
    }

    fn serve(&mut self, request: &RequestFrame, world: &mut World) {
        let number = request.body::<HeartbeatRequest>().map_or(-1, |body| body.generation_id);
        let now_ms = world.now_ms();
        world
            .checks
            .served(self.session.as_ref(), now_ms, number.unsigned_abs());
        let response = HeartbeatResponse {
            throttle_time_ms: number,
            ..Default::default()
        };
        if let Ok(response) = frame::encode_response(&response, request.version, request.correlation_id) {
            self.pending.push_back(response.into_bytes());
        }
        self.serve_next(world);
    }

    fn serve_next(&mut self, world: &mut World) {
        if !self.is_serving && !self.pending.is_empty() {
            self.is_serving = true;
            let delay = world.delay(world.plan.service_ms);
            world.queue.after(delay, Event::Served(self.conn));
        }
    }

    fn act(&mut self, action: ServerAction, world: &mut World) {
        let conn = self.conn;
        world.note(|| format!("{conn:?}: {action:?}"));
        let report = match action {
            ServerAction::ServeApiVersions(request) => {
                if let Ok(response) =
                    frame::encode_response(&ApiVersionsResponse::default(), request.version, request.correlation_id)
                {
                    world.send_to_client(conn, Event::ToClient(conn, response.into_bytes()));
                }
                return self.machine.handle_api_versions(ErrorCode::None);
            }
            ServerAction::Respond(response) => {
                return world.send_to_client(conn, Event::ToClient(conn, response.bytes));
            }
            ServerAction::Complete { response, session } => {
                self.complete(&session, world);
                return world.send_to_client(conn, Event::ToClient(conn, response.bytes));
            }
            ServerAction::Fail { response, .. } => {
                self.is_busy = true;
                let response = match response {
                    Some(FailureResponse::Sasl(response)) => Some(response.bytes),
                    Some(FailureResponse::Request { request, .. }) => {
                        let (key, is_logged_in) = (request.key, self.session.is_some());
                        let problem = || format!("{conn:?}: {key} was sent during a renewal");
                        world.checks.demand(!is_logged_in, problem);
                        None
                    }
                    None => None,
                };
                return world.queue.after(FAILURE_DELAY_MS, Event::DelayOver(conn, response));
            }
            ServerAction::Close(_) => return self.close(world),
            ServerAction::VerifyPlain(given) => Report::Plain(world.users.accepts(&given)),
            ServerAction::LookupScram { mechanism, username } => {
                Report::Scram(world.users.credential(mechanism, &username))
            }
            ServerAction::VerifyToken(token) => Report::Token(super::Users::verify(&token, world.now())),
        };
        self.is_busy = true;
        let delay = world.delay(world.plan.verify_ms);
        world.queue.after(delay, Event::Reported(conn, report));
    }

    fn complete(&mut self, session: &Session, world: &mut World) {
        let principal = session.principal.to_string();
        world.checks.logged_in(self.session.as_ref(), &principal);
        let has_end = world.plan.session_ms.is_some() || session.mechanism == Mechanism::OAuthBearer;
        world.checks.demand(session.lifetime_ms.is_some() == has_end, || {
            format!("{:?}: the session's lifetime is {:?}", self.conn, session.lifetime_ms)
        });
        let longest_ms = world.plan.session_ms.unwrap_or(world.plan.token_ms);
        world.checks.demand(session.lifetime_ms.unwrap_or(0) <= longest_ms, || {
            format!("{:?}: the session lives {:?} ms", self.conn, session.lifetime_ms)
        });
        self.session = Some(CheckedSession {
            principal,
            end_ms: session.lifetime_ms.map(|lifetime_ms| world.now_ms() + lifetime_ms),
        });
    }

    fn close(&mut self, world: &mut World) {
        self.is_closed = true;
        world.note(|| format!("{:?}: the broker closes", self.conn));
        world.send_to_client(self.conn, Event::ClientHearsClose(self.conn));
    }
}
