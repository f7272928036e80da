//! A client: the driver around its machine, with one connection at a time.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use milena_machines::sasl::{
    ClientAction, ClientAuthError, ClientAuthenticator, ClientExchange, Mechanism, ScramLogin, reauthenticate_after_ms,
};
use milena_wire::{
    frame,
    message::Request,
    messages::{
        ApiVersionsRequest, HeartbeatRequest, HeartbeatResponse, SaslAuthenticateResponse, SaslHandshakeResponse,
    },
};

use super::{
    Conn, Event, Users, World,
    plan::{ClientPlan, Style},
    users,
};
use crate::Mutation;

const BACKOFF_MS: i64 = 50;

#[derive(Debug)]
pub(super) struct Client {
    plan: ClientPlan,
    user: u8,
    /// The password it knows, which may be an old one.
    password: String,
    link: Option<Link>,
    next_request: u32,
    /// Requests whose responses were lost with a connection; they are sent again.
    lost: Vec<u32>,
    done: u32,
    /// When it may connect again.
    connects_at: i64,
    /// Connections on which it will send a request before it has logged in.
    intrusions: u64,
}

/// A connection from the client's side.
#[derive(Debug)]
struct Link {
    conn: Conn,
    in_flight: VecDeque<(i32, Sent)>,
    correlation_id: i32,
    login: Option<Login>,
    is_ready: bool,
    renews_at: Option<i64>,
}

#[derive(Debug)]
struct Login {
    machine: ClientAuthenticator,
    began: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Versions,
    Handshake,
    Authenticate,
    Request(u32),
    /// A request before the log-in.
    Intrusion,
}

impl Client {
    pub(super) fn new(plan: &ClientPlan) -> Self {
        Self {
            user: plan.user,
            password: Users::default().password(plan.user),
            plan: plan.clone(),
            link: None,
            next_request: 0,
            lost: vec![],
            done: 0,
            connects_at: 0,
            intrusions: plan.intrusions,
        }
    }

    pub(super) fn conn(&self) -> Option<Conn> {
        self.link.as_ref().map(|link| link.conn)
    }

    pub(super) fn is_done(&self) -> bool {
        self.done >= self.plan.requests
    }

    pub(super) fn wants_connection(&self) -> bool {
        self.link.is_none() && !self.is_done()
    }

    pub(super) fn learn(&mut self, users: &Users) {
        self.password = users.password(self.user);
    }

    /// Its credentials are of the other user from now on. Its connection is of no use after that.
    pub(super) fn change_user(&mut self, world: &mut World) {
        self.user = 1 - self.user;
        self.password = world.users.password(self.user);
        world.note(|| format!("a client becomes {}", users::name(self.user)));
    }

    pub(super) fn connect(&mut self, conn: Conn, world: &mut World) {
        world.note(|| {
            format!(
                "{conn:?}: {} connects with {}",
                users::name(self.user),
                self.plan.mechanism
            )
        });
        self.link = Some(Link {
            conn,
            in_flight: VecDeque::new(),
            correlation_id: 0,
            login: None,
            is_ready: false,
            renews_at: None,
        });
        self.send(&ApiVersionsRequest::default(), 0, Sent::Versions, world);
        if self.intrusions > 0 && world.random.below(2) == 0 {
            self.intrude(world);
        }
    }

    fn intrude(&mut self, world: &mut World) {
        self.intrusions = self.intrusions.saturating_sub(1);
        self.send(&HeartbeatRequest::default(), 4, Sent::Intrusion, world);
    }

    /// Sends the next request, or begins to renew the session.
    pub(super) fn tick(&mut self, index: usize, world: &mut World) {
        let is_idle = |link: &Link| link.in_flight.is_empty() && link.login.is_none();
        if let (true, Some(conn)) = (self.is_done() && self.link.as_ref().is_some_and(is_idle), self.conn()) {
            self.disconnect(world);
            world.send_to_server(conn, Event::ServerHearsClose(conn));
        }
        if self.is_done() && self.link.is_none() {
            return;
        }
        let delay = 1 + world.delay(self.plan.pace_ms);
        let at = (world.now() + delay).max(self.connects_at);
        world.queue.at(at, Event::Tick(index));
        let now = world.now();
        let Some(link) = &mut self.link else {
            return;
        };
        let sends_anyway = self.plan.mutation == Some(Mutation::SendDuringRenewal);
        if !link.is_ready || (link.login.is_some() && !sends_anyway) {
            return;
        }
        let is_due = link.login.is_none() && link.renews_at.is_some_and(|at| now >= at);
        if is_due && (self.plan.style == Style::Pipelines || link.in_flight.is_empty()) {
            return self.log_in(world);
        }
        if is_due || link.in_flight.len() >= self.plan.in_flight_max {
            return;
        }
        let number = self.lost.pop().or_else(|| {
            let number = self.next_request;
            (number < self.plan.requests).then(|| {
                self.next_request += 1;
                number
            })
        });
        if let Some(number) = number {
            let request = HeartbeatRequest {
                generation_id: i32::try_from(number).unwrap_or(0),
                ..Default::default()
            };
            self.send(&request, 4, Sent::Request(number), world);
        }
    }

    fn send<R: Request>(&mut self, request: &R, version: i16, sent: Sent, world: &mut World) {
        let Some(link) = &mut self.link else {
            return;
        };
        link.correlation_id += 1;
        if let Ok(frame) = frame::encode_request(request, version, link.correlation_id, None) {
            link.in_flight.push_back((link.correlation_id, sent));
            let conn = link.conn;
            world.note(|| format!("{conn:?}: > {sent:?}"));
            world.send_to_server(conn, Event::ToServer(conn, frame.into_bytes()));
        }
    }

    fn log_in(&mut self, world: &mut World) {
        let name = users::name(self.user);
        let exchange = match self.plan.mechanism {
            Mechanism::Plain => ClientExchange::plain(name, &self.password),
            Mechanism::Scram(mechanism) => {
                let random = world.random.next_u64().to_be_bytes();
                let nonce = std::array::from_fn(|index| random.get(index % 8).copied().unwrap_or(0));
                ClientExchange::scram(mechanism, name, ScramLogin::User, nonce)
            }
            Mechanism::OAuthBearer => {
                let end = world.now() + i64::try_from(world.plan.token_ms).unwrap_or(0);
                ClientExchange::oauth_bearer(&format!("{name}.{end}"), "", &BTreeMap::new())
            }
        };
        let Ok(exchange) = exchange else {
            return world.checks.demand(false, || "no exchange can begin".to_owned());
        };
        let machine = ClientAuthenticator::new(exchange);
        let request = machine.handshake_request();
        let began = world.now();
        if let Some(link) = &mut self.link {
            link.login = Some(Login { machine, began });
        }
        self.send(&request, 1, Sent::Handshake, world);
        let is_first = self.link.as_ref().is_some_and(|link| !link.is_ready);
        if is_first && self.intrusions > 0 {
            self.intrude(world);
        }
    }

    pub(super) fn receive(&mut self, conn: Conn, frame: &Bytes, world: &mut World) {
        let Some(link) = self.link.as_mut().filter(|link| link.conn == conn) else {
            return;
        };
        let frame = frame.slice(frame::LENGTH_SIZE..);
        let expected = link.in_flight.pop_front();
        let correlation_id = frame::correlation_id(&frame).unwrap_or(-1);
        let Some((_, sent)) = expected.filter(|(expected, _)| *expected == correlation_id) else {
            return world.checks.demand(false, || {
                format!("{conn:?}: response {correlation_id} is not that of {expected:?}, which is next")
            });
        };
        world.note(|| format!("{conn:?}: < {sent:?}"));
        match sent {
            Sent::Versions => self.log_in(world),
            Sent::Handshake => match frame::decode_response::<SaslHandshakeResponse>(&frame, 1) {
                Ok((_, response)) => self.advance(|login| login.handle_handshake(&response), world),
                Err(error) => world.checks.demand(false, || format!("{conn:?}: {error}")),
            },
            Sent::Authenticate => match frame::decode_response::<SaslAuthenticateResponse>(&frame, self.plan.version) {
                Ok((_, response)) => self.advance(|login| login.handle_authenticate(&response), world),
                Err(error) => world.checks.demand(false, || format!("{conn:?}: {error}")),
            },
            Sent::Intrusion => {
                world.checks.demand(false, || {
                    format!("{conn:?}: a request before the log-in got a response")
                });
            }
            Sent::Request(number) => {
                let response = frame::decode_response::<HeartbeatResponse>(&frame, 4);
                let received = response.map_or(-1, |(_, response)| response.throttle_time_ms);
                world.checks.demand(i64::from(received) == i64::from(number), || {
                    format!("{conn:?}: request {number} got the response of {received}")
                });
                self.done += 1;
            }
        }
    }

    pub(super) fn derived(&mut self, conn: Conn, salt: &[u8], iterations: u32, world: &mut World) {
        let (Mechanism::Scram(mechanism), true) = (self.plan.mechanism, self.conn() == Some(conn)) else {
            return;
        };
        let salted = users::salted(mechanism, &self.password, salt, iterations);
        self.advance(|login| login.handle_salted_password(&salted), world);
    }

    /// Carries out the next action of the log-in.
    fn advance(
        &mut self,
        step: impl FnOnce(&mut ClientAuthenticator) -> Result<ClientAction, ClientAuthError>,
        world: &mut World,
    ) {
        let Some((conn, login)) = self
            .link
            .as_mut()
            .and_then(|link| Some((link.conn, link.login.as_mut()?)))
        else {
            return world
                .checks
                .demand(false, || "a response of a log-in that is not under way".to_owned());
        };
        let latency_ms = u64::try_from(world.now() - login.began).unwrap_or(0);
        match step(&mut login.machine) {
            Ok(ClientAction::Authenticate(request)) => {
                self.send(&request, self.plan.version, Sent::Authenticate, world);
            }
            Ok(ClientAction::DeriveSaltedPassword { salt, iterations }) => {
                let delay = world.delay(50);
                let owner = world.owner(conn);
                world.queue.after(delay, Event::Derived(owner, conn, salt, iterations));
            }
            Ok(ClientAction::Done { session_lifetime_ms }) => {
                let seed = world.random.next_u64();
                let now = world.now();
                let after = session_lifetime_ms.map(|ms| reauthenticate_after_ms(ms, latency_ms, seed));
                // The broker refuses a second renewal within a second.
                let after = after.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX).max(1_000));
                if let Some(link) = &mut self.link {
                    link.renews_at = after.map(|ms| now.saturating_add(ms));
                    link.login = None;
                    link.is_ready = true;
                }
            }
            Err(error) => {
                world.note(|| format!("{conn:?}: {error}"));
                self.disconnect(world);
                world.send_to_server(conn, Event::ServerHearsClose(conn));
            }
        }
    }

    pub(super) fn hear_close(&mut self, conn: Conn, world: &mut World) {
        if self.conn() == Some(conn) {
            world.note(|| format!("{conn:?}: the client hears of its end"));
            self.disconnect(world);
        }
    }

    /// Requests in flight are sent again on the next connection.
    fn disconnect(&mut self, world: &World) {
        let link = self.link.take();
        let in_flight = link.into_iter().flat_map(|link| link.in_flight);
        self.lost.extend(in_flight.filter_map(|(_, sent)| match sent {
            Sent::Request(number) => Some(number),
            Sent::Versions | Sent::Handshake | Sent::Authenticate | Sent::Intrusion => None,
        }));
        self.connects_at = world.now() + BACKOFF_MS;
    }
}
