//! Requesters and services that exchange requests and replies over topics, crash, and come back: the real machine of
//! the requester, with a model of the drivers around it.

mod plan;
mod requester;
mod service;

use std::collections::BTreeMap;

use milena_machines::Random;

use crate::{
    Mutation, Outcome,
    history::History,
    play::{Play, play},
    queue::Queue,
    simulation::START_MS,
};
use plan::Plan;
use requester::Requester;
use service::{Request, Service};

/// Events of a run. Those of a requester carry its life: a crash makes them stale.
#[derive(Debug)]
enum Event {
    Start(usize),
    EndAsked(usize, u32),
    EndKnown(usize, u32, usize),
    Ask(usize, u32),
    Cancel(usize, u32, u64),
    Poll(usize, u32),
    Deadline(usize, u32),
    CrashRequester(usize),
    ToService(Request),
    Worked(usize, u32),
    CrashService(usize),
}

/// A record of a reply partition.
#[derive(Debug, Clone)]
struct Reply {
    correlation: [u8; 16],
    /// The number of the request, which only checks may use.
    answers: u64,
}

/// The shared state of a run.
#[derive(Debug)]
struct World {
    queue: Queue<Event>,
    random: Random,
    history: History,
    failure: Option<String>,
    plan: Plan,
    /// Reply partitions; `None` if the topic does not exist.
    logs: Vec<Option<Vec<Reply>>>,
    /// When the first reply to a request was written.
    replied: BTreeMap<u64, i64>,
    numbers: u64,
}

impl World {
    fn now(&self) -> i64 {
        self.queue.now()
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        self.history.note(self.queue.now(), line);
    }

    fn delay(&mut self, below_ms: u64) -> i64 {
        self.random.below(below_ms) as i64
    }

    fn demand(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some(problem());
        }
    }

    fn next_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn create_topic(&mut self, partition: usize) {
        if let Some(log) = self.logs.get_mut(partition) {
            log.get_or_insert_default();
        }
    }

    fn delete_topic(&mut self, partition: usize) {
        if let Some(log) = self.logs.get_mut(partition) {
            *log = None;
        }
    }
}

#[derive(Debug)]
struct Conversation {
    world: World,
    requesters: Vec<Requester>,
    services: Vec<Service>,
}

pub(crate) fn run(seed: u64, mutation: Option<Mutation>, with_history: bool) -> Outcome {
    let mut random = Random::new(seed);
    let plan = Plan::new(&mut random, mutation);
    let end = START_MS + plan.end_ms;
    let partitions = plan.requesters.len().max(2);
    let requests = plan.requests;
    let requesters = plan.requesters.iter();
    let mut conversation = Conversation {
        requesters: requesters
            .map(|partition| Requester::new(*partition, requests))
            .collect(),
        services: plan.services.iter().map(|_| Service::default()).collect(),
        world: World {
            queue: Queue::new(START_MS),
            random,
            history: History::new(with_history),
            failure: None,
            logs: vec![None; partitions],
            replied: BTreeMap::new(),
            numbers: 0,
            plan,
        },
    };
    let World { history, plan, .. } = &mut conversation.world;
    history.note(START_MS, || format!("{plan:?}"));
    conversation.schedule();
    play(conversation, end)
}

impl Play for Conversation {
    type Event = Event;

    fn queue(&mut self) -> &mut Queue<Event> {
        &mut self.world.queue
    }

    fn failure(&mut self) -> &mut Option<String> {
        &mut self.world.failure
    }

    fn happen(&mut self, event: Event) {
        let world = &mut self.world;
        let (requesters, services) = (&mut self.requesters, &mut self.services);
        match event {
            Event::ToService(request) => {
                // Requests of a requester have a key, so one service reads them all.
                let me = request.partition % services.len().max(1);
                if let Some(service) = services.get_mut(me) {
                    service.take(me, request, world);
                }
            }
            Event::Worked(me, life) => {
                if let Some(service) = services.get_mut(me) {
                    service.worked(me, life, world);
                }
            }
            Event::CrashService(me) => {
                if let Some(service) = services.get_mut(me) {
                    service.crash(me, world);
                }
            }
            Event::Start(me)
            | Event::EndAsked(me, _)
            | Event::EndKnown(me, ..)
            | Event::Ask(me, _)
            | Event::Cancel(me, ..)
            | Event::Poll(me, _)
            | Event::Deadline(me, _)
            | Event::CrashRequester(me) => {
                if let Some(requester) = requesters.get_mut(me) {
                    happen_to(requester, me, event, world);
                }
            }
        }
    }

    /// Everything ends: no request is pending, and no service works on one.
    fn check_settled(&mut self) {
        for (me, requester) in self.requesters.iter().enumerate() {
            requester.check_settled(me, &mut self.world);
        }
        for (me, service) in self.services.iter().enumerate() {
            self.world.demand(service.is_at_rest(), || {
                format!("service {me} is still busy with a reply at the end: {service:?}")
            });
        }
    }

    fn into_history(self) -> History {
        self.world.history
    }
}

impl Conversation {
    fn schedule(&mut self) {
        let World {
            queue, random, plan, ..
        } = &mut self.world;
        let (requesters, services) = (self.requesters.len() as u64, self.services.len() as u64);
        for requester in 0..self.requesters.len() {
            queue.after(random.below(1_000) as i64, Event::Start(requester));
        }
        for _ in 0..random.below(10) {
            let at = START_MS + random.below(plan.faults_ms) as i64;
            let event = match random.below(2) {
                0 => Event::CrashRequester(random.below(requesters) as usize),
                _ => Event::CrashService(random.below(services) as usize),
            };
            queue.at(at, event);
        }
    }
}

fn happen_to(requester: &mut Requester, me: usize, event: Event, world: &mut World) {
    match event {
        Event::Start(_) => requester.start(me, world),
        Event::EndAsked(_, life) => requester.end_asked(me, life, world),
        Event::EndKnown(_, life, end) => requester.end_known(me, (life, end), world),
        Event::Ask(_, life) => requester.ask(me, life, world),
        Event::Cancel(_, life, number) => requester.cancel(me, (life, number), world),
        Event::Poll(_, life) => requester.poll(me, life, world),
        Event::Deadline(_, life) => requester.deadline(me, life, world),
        _ => requester.crash(me, world),
    }
}
