//! Services that take part in sagas: the real machines of participants and owner, each with a transactional store and an
//! outbox, over topics that reorder, repeat and delay events.

mod checks;
mod node;
mod plan;
mod store;

use std::collections::{BTreeMap, VecDeque};

use milena_machines::{
    Random,
    saga::{Command, Definition},
};

use crate::{
    Mutation, Outcome,
    history::History,
    play::{Play, play},
    queue::Queue,
    simulation::START_MS,
};
use checks::Checks;
use node::{Node, Source};
use plan::Plan;

/// One saga of a run.
type SagaNo = u64;
/// The id of an event, which duplicates share.
type EventId = u64;
/// One delivery of a record to a reader, or another reason for a transaction.
type TxId = u64;

/// A record in a topic, or a row in an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    id: EventId,
    saga: SagaNo,
    event_type: String,
    saga_step: Option<String>,
    topic: String,
}

/// Events of a run.
#[derive(Debug)]
enum Event {
    /// A customer places an order.
    Start(SagaNo),
    /// A customer cancels.
    Cancel(SagaNo),
    /// A transaction of a node begins.
    Begin(usize, Source),
    /// The transaction commits, unless its node crashed or another one was first.
    Commit(usize, u32, TxId),
    /// The rest of a transaction that a mutation has split.
    CommitRest(usize, u32, TxId),
    /// The owner looks for timers that are due.
    Scan,
    /// A node publishes its outbox.
    Relay(usize),
    Crash(usize),
    Recover(usize),
    Operate(SagaNo, Command),
    /// An operator retries the sagas that are stuck.
    RetryStuck,
    /// Dead letters are sent back.
    Redrive,
}

/// The shared state of a run.
#[derive(Debug)]
struct World {
    queue: Queue<Event>,
    random: Random,
    history: History,
    checks: Checks,
    plan: Plan,
    definition: Definition,
    /// The time of the last delivery, by reader and topic.
    delivered_ms: BTreeMap<(usize, String), i64>,
    dead_letters: VecDeque<(usize, Record)>,
    last_event: EventId,
}

impl World {
    fn now(&self) -> i64 {
        self.queue.now()
    }

    fn has_faults(&self) -> bool {
        self.now() < START_MS + self.plan.faults_ms
    }

    /// Whether something with a probability of one in `of` happens. Nothing does after the faults.
    fn happens(&mut self, of: u64) -> bool {
        self.has_faults() && of > 0 && self.random.below(of) == 0
    }

    fn delay(&mut self, below_ms: u64) -> i64 {
        self.random.below(below_ms) as i64
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        self.history.note(self.queue.now(), line);
    }

    fn event_id(&mut self) -> EventId {
        self.last_event += 1;
        self.last_event
    }

    fn record(&mut self, saga: SagaNo, event_type: &str, saga_step: Option<String>) -> Record {
        let emitter = self.definition.emitter(event_type);
        let topic = emitter.and_then(|emitter| self.definition.topic(emitter));
        Record {
            topic: topic.unwrap_or_default().to_owned(),
            id: self.event_id(),
            saga,
            event_type: event_type.to_owned(),
            saga_step,
        }
    }
}

#[derive(Debug)]
struct Sagas {
    world: World,
    nodes: Vec<Node>,
}

pub(crate) fn run(seed: u64, mutation: Option<Mutation>, with_history: bool) -> Outcome {
    let mut random = Random::new(seed);
    let (plan, definition) = Plan::new(&mut random, mutation);
    let end = START_MS + plan.end_ms;
    let mut history = History::new(with_history);
    history.note(START_MS, || format!("{plan:?} {:?}", definition.draft()));
    let names = definition.draft().participants.iter().enumerate();
    let nodes = names.map(|(index, participant)| Node::new(index, &participant.name, &definition));
    let nodes = nodes.collect();
    let mut sagas = Sagas {
        nodes,
        world: World {
            queue: Queue::new(START_MS),
            random,
            history,
            checks: Checks::default(),
            plan,
            definition,
            delivered_ms: BTreeMap::new(),
            dead_letters: VecDeque::new(),
            last_event: 0,
        },
    };
    sagas.schedule();
    play(sagas, end)
}

impl Play for Sagas {
    type Event = Event;

    fn queue(&mut self) -> &mut Queue<Event> {
        &mut self.world.queue
    }

    fn failure(&mut self) -> &mut Option<String> {
        &mut self.world.checks.failure
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(saga) => self.start(saga),
            Event::Cancel(saga) => self.cancel(saga),
            Event::Begin(node, source) => self.begin(node, source),
            Event::Commit(node, epoch, tx) => self.commit(node, epoch, tx),
            Event::CommitRest(node, epoch, tx) => self.commit_rest(node, epoch, tx),
            Event::Scan => self.scan(),
            Event::Relay(node) => self.relay(node),
            Event::Crash(node) => self.crash(node),
            Event::Recover(node) => self.recover(node),
            Event::Operate(saga, command) => {
                let owner = self.owner();
                self.begin(owner, Source::Command(saga, command));
            }
            Event::RetryStuck => self.retry_stuck(),
            Event::Redrive => self.redrive(),
        }
    }

    fn check_settled(&mut self) {
        Self::check_settled(self);
    }

    fn into_history(self) -> History {
        self.world.history
    }
}

impl Sagas {
    fn schedule(&mut self) {
        let nodes = self.nodes.len();
        let World {
            queue, random, plan, ..
        } = &mut self.world;
        let sometime = |random: &mut Random| START_MS + random.below(plan.faults_ms as u64) as i64;
        for saga in 0..plan.sagas {
            let start = sometime(random);
            queue.at(start, Event::Start(saga));
            if random.below(4) == 0 {
                queue.at(start + random.below(8_000) as i64, Event::Cancel(saga));
            }
            if random.below(6) == 0 {
                let command = match random.below(6) {
                    0 => Command::Close,
                    1 | 2 => Command::Retry,
                    _ => Command::Compensate,
                };
                queue.at(start + random.below(10_000) as i64, Event::Operate(saga, command));
            }
        }
        for _ in 0..random.below(10) {
            queue.at(sometime(random), Event::Crash(random.below(nodes as u64) as usize));
        }
        queue.at(START_MS + plan.faults_ms, Event::Redrive);
        queue.at(START_MS + plan.faults_ms + 1_000, Event::RetryStuck);
    }

    fn owner(&self) -> usize {
        let owner = self.world.definition.owner();
        self.nodes.iter().position(|node| node.name == owner).unwrap_or(0)
    }

    /// Some owners start sagas in a transaction of their own, others follow an event of another program.
    fn start(&mut self, saga: SagaNo) {
        let event_type = self.world.definition.draft().starts.clone();
        let record = self.world.record(saga, &event_type, None);
        if self.world.plan.starts_in_transaction {
            let owner = self.owner();
            self.begin(owner, Source::Start(record));
        } else {
            self.publish(&record);
        }
    }

    fn cancel(&mut self, saga: SagaNo) {
        let event_type = self.world.definition.draft().cancel_on.first().cloned();
        if let Some(event_type) = event_type {
            let record = self.world.record(saga, &event_type, None);
            self.publish(&record);
        }
    }

    /// Delivers a record to all that read its topic, at different times, and to some of them twice.
    fn publish(&mut self, record: &Record) {
        let Self { world, nodes } = self;
        world.note(|| format!("published {record:?}"));
        for (reader, node) in nodes.iter().enumerate() {
            if !node.reads.contains(&record.topic) {
                continue;
            }
            let mut at = world.now() + world.delay(world.plan.latency_ms);
            if !world.plan.reorders {
                let last = world.delivered_ms.entry((reader, record.topic.clone())).or_insert(at);
                at = at.max(*last);
                *last = at;
            }
            world.queue.at(at, Event::Begin(reader, Source::Record(record.clone())));
            if world.happens(world.plan.duplicates) {
                let at = at + world.delay(6_000);
                world.queue.at(at, Event::Begin(reader, Source::Record(record.clone())));
            }
        }
    }

    fn relay(&mut self, index: usize) {
        let is_repeated = self.world.happens(20);
        let mut rows = vec![];
        if let Some(node) = self.nodes.get_mut(index).filter(|node| node.is_up) {
            rows.extend(node.store.outbox.iter().cloned());
            // A relay that crashes before it marks the rows publishes them again.
            if !is_repeated {
                node.store.outbox.clear();
            }
        }
        for record in rows {
            self.publish(&record);
        }
        if is_repeated {
            let pause = 10 + self.world.delay(150);
            self.world.queue.after(pause, Event::Relay(index));
        }
    }

    fn crash(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index).filter(|node| node.is_up) else {
            return;
        };
        self.world.note(|| format!("{} crashes", node.name));
        // Records in flight were not committed to the group, so they are delivered again.
        for source in node.crash() {
            let at = 500 + self.world.delay(3_000);
            self.world.queue.after(at, Event::Begin(index, source));
        }
        let down = 100 + self.world.delay(4_000);
        self.world.queue.after(down, Event::Recover(index));
    }

    fn recover(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else {
            return;
        };
        node.is_up = true;
        self.world.note(|| format!("{} is back", node.name));
        let pause = 10 + self.world.delay(600);
        self.world.queue.after(pause, Event::Relay(index));
        self.world.queue.after(pause, Event::Scan);
    }

    /// Looks for due timers; some fire twice.
    fn scan(&mut self) {
        let index = self.owner();
        let now = self.world.now();
        let due = match self.nodes.get(index).filter(|node| node.is_up) {
            Some(node) => node.due(now, self.world.plan.mutation),
            None => vec![],
        };
        for saga in due {
            self.begin(index, Source::Timer(saga));
            if self.world.happens(10) {
                let delay = self.world.delay(400);
                self.world.queue.after(delay, Event::Begin(index, Source::Timer(saga)));
            }
        }
    }

    /// Dead letters of the owner always come back; those of others may never.
    fn redrive(&mut self) {
        let owner = self.owner();
        let dead: Vec<(usize, Record)> = self.world.dead_letters.drain(..).collect();
        for (node, record) in dead {
            if node == owner || self.world.random.below(2) == 0 {
                let delay = self.world.delay(20_000);
                self.world
                    .queue
                    .after(delay, Event::Begin(node, Source::Record(record)));
            }
        }
    }

    fn retry_stuck(&mut self) {
        let owner = self.owner();
        let stuck = self.nodes.get(owner).map(Node::stuck).unwrap_or_default();
        for saga in stuck {
            self.begin(owner, Source::Command(saga, Command::Retry));
        }
        self.world.queue.after(60_000, Event::RetryStuck);
    }
}
