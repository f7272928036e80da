//! One run: a seed decides everything that happens in it.

use std::sync::Arc;

use bytestring::ByteString;
use milena_machines::{Random, TopicImage, TopicsImage};
use milena_wire::Uuid;

use crate::{
    broker::{Broker, LogId},
    checks::Checks,
    clients::{CallId, Client, ClientId, Io, PRODUCERS_GROUP, Reply, Request},
    history::History,
    network::Network,
    queue::Queue,
};

/// Events of a run.
#[derive(Debug, Clone)]
pub(crate) enum Event {
    /// A request reaches the broker.
    Arrive {
        from: ClientId,
        call: CallId,
        request: Request,
    },
    /// A response reaches its client.
    Reply {
        to: ClientId,
        call: CallId,
        reply: Reply,
    },
    /// A client's request timeout is over.
    NoReply {
        client: ClientId,
        call: CallId,
    },
    /// A wake-up that a client requested.
    Wake {
        client: ClientId,
    },
    /// A deadline of a machine.
    Alarm {
        incarnation: u64,
    },
    /// A log is durable up to `end`.
    Synced {
        log: LogId,
        end: usize,
        incarnation: u64,
    },
    BrokerUp {
        incarnation: u64,
    },
    Fault(Fault),
    /// From now on there are no faults.
    FaultsStop,
}

#[derive(Debug, Clone)]
pub(crate) enum Fault {
    CrashClient(ClientId),
    PauseClient {
        client: ClientId,
        for_ms: i64,
    },
    CrashBroker {
        power_cut: bool,
    },
    JumpClock {
        by_ms: i64,
    },
    /// Not a fault, but at an arbitrary time: a topic is created, or gets this number of partitions.
    SetTopic {
        name: ByteString,
        partitions: i32,
    },
}

/// The shared state of a run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) queue: Queue<Event>,
    pub(crate) random: Random,
    pub(crate) history: History,
    pub(crate) checks: Checks,
    pub(crate) topics: Arc<TopicsImage>,
    pub(crate) network: Network,
    pub(crate) faults: bool,
    last_call: CallId,
}

/// The start time of runs: one like those that brokers see.
pub(crate) const START_MS: i64 = 1_700_000_000_000;

impl World {
    pub(crate) fn new(seed: u64, with_history: bool) -> Self {
        Self {
            queue: Queue::new(START_MS),
            random: Random::new(seed),
            history: History::new(with_history),
            checks: Checks::default(),
            topics: Arc::default(),
            network: Network::GOOD,
            faults: true,
            last_call: 0,
        }
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        self.history.note(self.queue.now(), line);
    }

    pub(crate) fn set_topic(&mut self, name: ByteString, partitions: i32) {
        let mut topics = TopicsImage::clone(&self.topics);
        let known = topics.by_name(&name);
        let id = known.map_or_else(|| self.new_id(), |topic| topic.id);
        let partitions = known.map_or(partitions, |topic| topic.partitions.max(partitions));
        topics.insert(name, TopicImage { id, partitions });
        self.topics = Arc::new(topics);
    }

    fn new_id(&mut self) -> Uuid {
        let mut bytes = [1; 16];
        bytes[..8].copy_from_slice(&self.random.next_u64().to_be_bytes());
        Uuid::from_bytes(bytes)
    }
}

#[derive(Debug)]
pub(crate) struct Simulation {
    pub(crate) world: World,
    pub(crate) broker: Broker,
    clients: Vec<Slot>,
}

/// A client and the faults it suffers.
#[derive(Debug)]
struct Slot {
    client: Box<dyn Client>,
    paused_until: i64,
    last_arrival: i64,
}

impl Simulation {
    pub(crate) fn new(world: World, broker: Broker) -> Self {
        Self {
            world,
            broker,
            clients: vec![],
        }
    }

    /// Adds a client that begins at `start`.
    pub(crate) fn add(&mut self, client: Box<dyn Client>, start: i64) -> ClientId {
        let id = self.clients.len();
        self.clients.push(Slot {
            client,
            paused_until: i64::MIN,
            last_arrival: i64::MIN,
        });
        self.world.queue.at(start, Event::Wake { client: id });
        id
    }

    pub(crate) fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Plays until `end` or until a check fails, and counts the events.
    pub(crate) fn play(&mut self, end: i64, events: &mut u64) {
        while self.world.checks.failure().is_none()
            && let Some(event) = self.world.queue.next(end)
        {
            *events += 1;
            self.happen(event);
        }
    }

    /// The checks of the final state, after a time without faults.
    pub(crate) fn check_settled(&mut self) {
        let world = &mut self.world;
        let topics = world.topics.clone();
        world.checks.settled(world.queue.now(), &topics);
        self.broker.check_logs(world);
        let offsets = self.broker.committed_offsets(world, PRODUCERS_GROUP);
        let partitions = self.broker.read_committed();
        let result = if world.checks.writes.is_empty() {
            world.checks.transactions.check(&partitions, &offsets)
        } else {
            world.checks.writes.check(&partitions, &offsets)
        };
        world.checks.demand(result);
    }

    fn happen(&mut self, event: Event) {
        let world = &mut self.world;
        match event {
            Event::Arrive { from, call, request } => self.broker.arrive(world, from, call, request),
            Event::Reply { to, call, reply } => {
                let again = Event::Reply {
                    to,
                    call,
                    reply: reply.clone(),
                };
                self.with_client(to, again, |client, io| client.handle_reply(io, call, reply));
            }
            Event::NoReply { client, call } => {
                self.with_client(client, event, |client, io| client.handle_no_reply(io, call));
            }
            Event::Wake { client } => self.with_client(client, event, |client, io| client.wake(io)),
            Event::Alarm { incarnation } => self.broker.alarm(world, incarnation),
            Event::Synced { log, end, incarnation } => self.broker.synced(world, &log, end, incarnation),
            Event::BrokerUp { incarnation } => self.broker.up(world, incarnation),
            Event::Fault(fault) => self.fault(fault),
            Event::FaultsStop => {
                world.note(|| "faults stop".to_owned());
                world.faults = false;
                world.checks.writes.faults_stop();
                world.network = Network::GOOD;
            }
        }
    }

    fn fault(&mut self, fault: Fault) {
        let world = &mut self.world;
        match fault {
            Fault::CrashClient(client) => {
                world.note(|| format!("client {client} crashes"));
                let event = Event::Fault(Fault::CrashClient(client));
                self.with_client(client, event, |client, io| client.crash(io));
            }
            Fault::PauseClient { client, for_ms } => {
                world.note(|| format!("client {client} stands still for {for_ms} ms"));
                if let Some(slot) = self.clients.get_mut(client) {
                    slot.paused_until = world.queue.now() + for_ms;
                }
            }
            Fault::CrashBroker { power_cut } => self.broker.crash(world, power_cut),
            Fault::JumpClock { by_ms } => self.broker.jump(world, by_ms),
            Fault::SetTopic { name, partitions } => {
                world.note(|| format!("topic {name} has {partitions} partitions"));
                world.set_topic(name, partitions);
                self.broker.topics_changed(world);
            }
        }
    }

    /// Lets a client act. While it is paused, the event is delivered again later.
    fn with_client(&mut self, id: ClientId, again: Event, act: impl FnOnce(&mut dyn Client, &mut Io<'_>)) {
        let Some(slot) = self.clients.get_mut(id) else { return };
        let world = &mut self.world;
        if world.queue.now() < slot.paused_until {
            return world.queue.at(slot.paused_until, again);
        }
        let mut io = Io {
            id,
            random: &mut world.random,
            checks: &mut world.checks,
            history: &mut world.history,
            topics: &world.topics,
            queue: &mut world.queue,
            network: world.network,
            last_call: &mut world.last_call,
            last_arrival: &mut slot.last_arrival,
        };
        act(slot.client.as_mut(), &mut io);
    }
}
