//! Clients that log in to a broker, renew their sessions while they send requests, and lose their connections: the real
//! machines of both sides, with a model of the drivers around them.

mod checks;
mod client;
mod plan;
mod server;
mod users;

use bytes::Bytes;
use milena_machines::Random;

use crate::{
    Mutation, Outcome,
    history::History,
    play::{Play, play},
    queue::Queue,
    simulation::START_MS,
};
use checks::Checks;
use client::Client;
use plan::Plan;
use server::{Connection, Report};
use users::Users;

/// A connection, by its place in the list of all connections of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Conn(usize);

/// Events of a run.
#[derive(Debug)]
enum Event {
    /// A client connects, or sends its next request.
    Tick(usize),
    ToServer(Conn, Bytes),
    ToClient(Conn, Bytes),
    /// The broker's question about credentials is answered.
    Reported(Conn, Report),
    /// The delay of a failed log-in is over.
    DelayOver(Conn, Option<Bytes>),
    /// The response that is next in order may be sent.
    Served(Conn),
    /// A client has derived its salted password.
    Derived(usize, Conn, Bytes, u32),
    /// One end learns that the other has closed.
    ClientHearsClose(Conn),
    ServerHearsClose(Conn),
    /// The network loses a connection.
    Cut(usize),
    /// The password of a user changes; clients get to know it later.
    PasswordChanges(u8),
    ClientLearnsPassword(usize),
    /// A client gets tokens of another user from now on.
    UserChanges(usize),
}

/// The shared state of a run.
#[derive(Debug)]
struct World {
    queue: Queue<Event>,
    random: Random,
    history: History,
    checks: Checks,
    users: Users,
    plan: Plan,
    wires: Vec<Wire>,
}

/// The two directions of a connection: bytes arrive in the order in which they were sent, or not at all.
#[derive(Debug, Default)]
struct Wire {
    client: usize,
    is_cut: bool,
    to_server_ms: i64,
    to_client_ms: i64,
}

impl World {
    fn now(&self) -> i64 {
        self.queue.now()
    }

    /// The machines' clock.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.now()).unwrap_or(0)
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        self.history.note(self.queue.now(), line);
    }

    fn delay(&mut self, below_ms: u64) -> i64 {
        self.random.below(below_ms) as i64
    }

    fn send_to_server(&mut self, conn: Conn, event: Event) {
        let at = self.now() + self.delay(self.plan.latency_ms);
        if let Some(wire) = self.wires.get_mut(conn.0) {
            wire.to_server_ms = wire.to_server_ms.max(at);
            self.queue.at(wire.to_server_ms, event);
        }
    }

    fn send_to_client(&mut self, conn: Conn, event: Event) {
        let at = self.now() + self.delay(self.plan.latency_ms);
        if let Some(wire) = self.wires.get_mut(conn.0) {
            wire.to_client_ms = wire.to_client_ms.max(at);
            self.queue.at(wire.to_client_ms, event);
        }
    }

    fn is_cut(&self, conn: Conn) -> bool {
        self.wires.get(conn.0).is_none_or(|wire| wire.is_cut)
    }

    fn owner(&self, conn: Conn) -> usize {
        self.wires.get(conn.0).map_or(0, |wire| wire.client)
    }
}

#[derive(Debug)]
struct Logins {
    world: World,
    clients: Vec<Client>,
    connections: Vec<Connection>,
}

pub(crate) fn run(seed: u64, mutation: Option<Mutation>, with_history: bool) -> Outcome {
    let mut random = Random::new(seed);
    let plan = Plan::new(&mut random, mutation);
    let end = START_MS + plan.end_ms;
    let mut logins = Logins {
        clients: plan.clients.iter().map(Client::new).collect(),
        connections: vec![],
        world: World {
            queue: Queue::new(START_MS),
            random,
            history: History::new(with_history),
            checks: Checks::default(),
            users: Users::default(),
            plan,
            wires: vec![],
        },
    };
    let World { history, plan, .. } = &mut logins.world;
    history.note(START_MS, || format!("{plan:?}"));
    logins.schedule();
    play(logins, end)
}

impl Play for Logins {
    type Event = Event;

    fn queue(&mut self) -> &mut Queue<Event> {
        &mut self.world.queue
    }

    fn failure(&mut self) -> &mut Option<String> {
        &mut self.world.checks.failure
    }

    fn happen(&mut self, event: Event) {
        let Self {
            world,
            clients,
            connections,
        } = self;
        match event {
            Event::Tick(client) => self.tick(client),
            Event::ToServer(conn, frame) if !world.is_cut(conn) => {
                if let Some(connection) = connections.get_mut(conn.0) {
                    connection.receive(frame, world);
                }
            }
            Event::ToClient(conn, frame) if !world.is_cut(conn) => {
                if let Some(client) = clients.get_mut(world.owner(conn)) {
                    client.receive(conn, &frame, world);
                }
            }
            Event::ToServer(..) | Event::ToClient(..) => {}
            Event::Reported(conn, _)
            | Event::DelayOver(conn, _)
            | Event::Served(conn)
            | Event::ServerHearsClose(conn) => {
                if let Some(connection) = connections.get_mut(conn.0) {
                    connection.happen(event, world);
                }
            }
            Event::Derived(client, conn, salt, iterations) => {
                if let Some(client) = clients.get_mut(client) {
                    client.derived(conn, &salt, iterations, world);
                }
            }
            Event::ClientHearsClose(conn) => {
                if let Some(client) = clients.get_mut(world.owner(conn)) {
                    client.hear_close(conn, world);
                }
            }
            Event::Cut(client) => self.cut(client),
            Event::PasswordChanges(user) => self.change_password(user),
            Event::ClientLearnsPassword(client) => {
                if let Some(client) = clients.get_mut(client) {
                    client.learn(&world.users);
                }
            }
            Event::UserChanges(client) => {
                if let Some(client) = clients.get_mut(client) {
                    client.change_user(world);
                }
            }
        }
    }

    /// Everything ends: with good credentials and a quiet network, each client has got all its responses.
    fn check_settled(&mut self) {
        let checks = &mut self.world.checks;
        for (index, client) in self.clients.iter().enumerate() {
            checks.demand(client.is_done(), || {
                format!("client {index} never got all its responses: {client:?}")
            });
        }
        for connection in &self.connections {
            checks.demand(connection.is_at_rest(), || format!("{connection:?} never came to rest"));
        }
    }

    fn into_history(self) -> History {
        self.world.history
    }
}

impl Logins {
    fn schedule(&mut self) {
        let World {
            queue, random, plan, ..
        } = &mut self.world;
        for client in 0..plan.clients.len() {
            queue.after(random.below(2_000) as i64, Event::Tick(client));
        }
        let clients = plan.clients.len() as u64;
        for _ in 0..random.below(8) {
            let at = START_MS + random.below(plan.faults_ms) as i64;
            let event = match random.below(4) {
                0 => Event::PasswordChanges(random.below(2) as u8),
                1 => Event::UserChanges(random.below(clients) as usize),
                _ => Event::Cut(random.below(clients) as usize),
            };
            queue.at(at, event);
        }
    }

    fn tick(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else {
            return;
        };
        if client.wants_connection() {
            let conn = Conn(self.connections.len());
            self.world.wires.push(Wire {
                client: index,
                ..Wire::default()
            });
            self.connections.push(Connection::new(conn, &self.world.plan));
            client.connect(conn, &mut self.world);
        }
        client.tick(index, &mut self.world);
    }

    /// Loses the connection of a client; both ends learn of it later.
    fn cut(&mut self, index: usize) {
        let world = &mut self.world;
        let Some(conn) = self.clients.get(index).and_then(Client::conn) else {
            return;
        };
        world.note(|| format!("{conn:?} is cut"));
        if let Some(wire) = world.wires.get_mut(conn.0) {
            wire.is_cut = true;
        }
        let (client_ms, server_ms) = (world.delay(500), world.delay(500));
        world.queue.after(client_ms, Event::ClientHearsClose(conn));
        world.queue.after(server_ms, Event::ServerHearsClose(conn));
    }

    fn change_password(&mut self, user: u8) {
        self.world.users.change_password(user);
        self.world.note(|| format!("the password of user {user} changes"));
        for client in 0..self.clients.len() {
            let delay = self.world.delay(8_000);
            self.world.queue.after(delay, Event::ClientLearnsPassword(client));
        }
    }
}
