//! Relays of an outbox: real machines, with models of the database, the broker and the drivers around them. Concurrent
//! transactions write events, some of them slowly; relays crash, pause and lose statements and acknowledgements.

mod checks;
mod database;
mod plan;
mod relay;

use std::{collections::BTreeMap, fmt};

use milena_machines::{Random, outbox::RefusedScope};

use crate::{
    Mutation, Outcome,
    history::History,
    play::{Play, play},
    queue::Queue,
    simulation::START_MS,
};
use checks::Checks;
use database::{Database, RowState, Transaction, topic_of};
use plan::Plan;
use relay::{Call, CallResult, Delivery, Process};

/// Number of events after which the run is checked for its end.
const SETTLED_EVERY: u64 = 200;

/// A relay, and how often it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    relay: usize,
    incarnation: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "relay {}.{}", self.relay, self.incarnation)
    }
}

/// Events of a run.
#[derive(Debug)]
enum Event {
    /// A transaction inserts its next row, or ends.
    Write(usize),
    /// A statement reaches the database.
    Call(Owner, Call),
    CallResult(Owner, CallResult),
    /// The producer of a relay sends an event, until the time at which its delivery ends.
    Send(Owner, i64, i64),
    /// An event reaches the broker.
    Arrive(Owner, i64, i64),
    Delivered(Owner, i64, Delivery),
    Notified(usize),
    Timer(Owner),
    Start(usize),
    Crash(usize),
    Stop(usize),
    Pause(usize, i64),
    /// The cluster is unavailable for this time.
    BrokerDown(i64),
    /// An operator resets the failures in the table.
    Reset,
}

/// The shared state of a run.
#[derive(Debug)]
struct World {
    queue: Queue<Event>,
    random: Random,
    history: History,
    checks: Checks,
    database: Database,
    plan: Plan,
    broker_down_until_ms: i64,
    topic_missing_until_ms: i64,
    /// The last event of each aggregate that was published for the first time.
    last_published: BTreeMap<u64, i64>,
}

impl World {
    fn now(&self) -> i64 {
        self.queue.now()
    }

    fn delay(&mut self) -> i64 {
        self.random.below(self.plan.latency_ms) as i64
    }

    fn is_lost(&mut self) -> bool {
        let is_faulty = self.now() < START_MS + self.plan.faults_end_ms;
        is_faulty && self.random.below(1_000) < self.plan.lost
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now();
        self.history.note(now, line);
    }
}

pub(crate) fn run(seed: u64, mutation: Option<Mutation>, with_history: bool) -> Outcome {
    let mut random = Random::new(seed);
    let plan = Plan::new(&mut random, mutation);
    let end_ms = START_MS + plan.end_ms;
    let world = World {
        queue: Queue::new(START_MS),
        history: History::new(with_history),
        checks: Checks::default(),
        database: Database::new(&plan),
        broker_down_until_ms: 0,
        topic_missing_until_ms: 0,
        last_published: BTreeMap::new(),
        random,
        plan,
    };
    let mut simulation = Simulation { relays: vec![], world };
    simulation.set_up();
    play(simulation, end_ms)
}

impl Play for Simulation {
    type Event = Event;

    fn queue(&mut self) -> &mut Queue<Event> {
        &mut self.world.queue
    }

    fn failure(&mut self) -> &mut Option<String> {
        &mut self.world.checks.failure
    }

    fn happen(&mut self, event: Event) {
        let (relays, world) = (&mut self.relays, &mut self.world);
        match event {
            Event::Write(transaction) => world.write(transaction),
            Event::Call(owner, call) => world.call(owner, call),
            Event::Arrive(owner, sequence, end_ms) => world.arrive(owner, sequence, end_ms),
            Event::BrokerDown(for_ms) => world.broker_down_until_ms = world.now() + for_ms,
            Event::Reset => world.database.rows.values_mut().for_each(|row| row.attempts = 0),
            Event::Start(relay) => {
                if relays[relay].machine.is_none() {
                    relays[relay].start(world);
                }
            }
            Event::Crash(relay) => {
                relays[relay].crash(world);
                let delay = world.random.below(5_000) as i64;
                world.queue.after(delay, Event::Start(relay));
            }
            Event::Pause(relay, for_ms) => {
                relays[relay].paused_until_ms = world.now() + for_ms;
                world.note(|| format!("relay {relay} is paused for {for_ms} ms"));
            }
            Event::Stop(relay) => relays[relay].handle(world, |machine, _| machine.handle_stop()),
            Event::CallResult(owner, _)
            | Event::Send(owner, _, _)
            | Event::Delivered(owner, _, _)
            | Event::Timer(owner) => {
                if relays[owner.relay].owner == owner {
                    self.happen_to(owner.relay, event);
                }
            }
            Event::Notified(relay) => self.happen_to(relay, event),
        }
    }

    fn is_over(&self, events: u64) -> bool {
        events.is_multiple_of(SETTLED_EVERY) && self.is_settled()
    }

    /// With a healthy network and running relays, all that was committed is published and marked.
    fn check_settled(&mut self) {
        let World { database, checks, .. } = &mut self.world;
        for row in database.rows.values() {
            checks.demand(row.state != RowState::Open, || format!("{row:?} was never committed"));
            if row.state == RowState::Committed {
                checks.demand(row.published > 0, || {
                    format!("event {} was never published: {row:?}", row.sequence)
                });
                checks.demand(row.is_marked, || {
                    format!("event {} was never marked: {row:?}", row.sequence)
                });
            }
        }
    }

    fn into_history(self) -> History {
        self.world.history
    }
}

struct Simulation {
    relays: Vec<Process>,
    world: World,
}

impl Simulation {
    fn set_up(&mut self) {
        for relay in 0..self.world.plan.relays {
            let process = Process::new(relay, &mut self.world);
            self.relays.push(process);
            let start = self.world.random.below(5_000) as i64;
            self.world.queue.after(start, Event::Start(relay));
        }
        let World {
            queue,
            random,
            plan,
            database,
            ..
        } = &mut self.world;
        for transaction in 0..plan.transactions {
            let at_ms = START_MS + random.below(plan.faults_end_ms as u64) as i64;
            let mut writes: Vec<u64> = (0..1 + random.below(3))
                .map(|_| random.below(plan.aggregates))
                .collect();
            writes.sort_unstable();
            database.transactions.push(Transaction {
                began_ms: at_ms,
                writes,
                is_slow: random.below(10) == 0,
                ..Transaction::default()
            });
            queue.at(at_ms, Event::Write(transaction as usize));
        }
        self.add_faults();
    }

    fn add_faults(&mut self) {
        let World {
            queue,
            random,
            plan,
            topic_missing_until_ms,
            ..
        } = &mut self.world;
        let end = plan.faults_end_ms as u64;
        if plan.has_refusals && random.below(2) == 0 {
            *topic_missing_until_ms = START_MS + random.below(end) as i64;
        }
        let relays = plan.relays as u64;
        for _ in 0..random.below(3) {
            let at_ms = START_MS + random.below(end) as i64;
            queue.at(at_ms, Event::Stop(random.below(relays) as usize));
            if plan.has_refusals {
                queue.at(START_MS + random.below(end) as i64, Event::Reset);
            }
        }
        if !plan.has_faults {
            return;
        }
        for _ in 0..random.below(6) {
            let relay = random.below(relays) as usize;
            let event = match random.below(5) {
                0 | 1 => Event::Crash(relay),
                2 | 3 => Event::Pause(relay, random.below(2 * plan.config.lease_ms as u64) as i64),
                _ => Event::BrokerDown(random.below(8_000) as i64),
            };
            queue.at(START_MS + random.below(end) as i64, event);
        }
    }

    /// Events of a process wait while it is paused.
    fn happen_to(&mut self, relay: usize, event: Event) {
        let (process, world) = (&mut self.relays[relay], &mut self.world);
        if process.paused_until_ms > world.now() {
            world.queue.at(process.paused_until_ms, event);
            return;
        }
        match event {
            Event::CallResult(_, result) => process.called(result, world),
            Event::Delivered(_, sequence, delivery) => process.delivered(sequence, delivery, world),
            Event::Notified(_) => process.handle(world, |machine, now_ms| machine.handle_wake(now_ms)),
            Event::Timer(_) => process.drive(world),
            Event::Send(owner, sequence, end_ms) if process.machine.is_some() => world.send(owner, sequence, end_ms),
            _ => {}
        }
    }

    /// Whether the faults are over and all is done.
    fn is_settled(&self) -> bool {
        let World { database, plan, .. } = &self.world;
        let is_done = |row: &database::StoredRow| match row.state {
            RowState::Open => false,
            RowState::Committed => row.is_marked,
            RowState::RolledBack => true,
        };
        self.world.now() > START_MS + plan.faults_end_ms && database.rows.values().all(is_done) && database.is_quiet()
    }
}

impl World {
    fn write(&mut self, transaction: usize) {
        let open_ms = self.plan.open_ms;
        let open = &self.database.transactions[transaction];
        let factor = if open.is_slow { 10 } else { 1 };
        if open.writes.is_empty() {
            let is_commit = self.random.below(10) > 0;
            let ended = self.database.end(transaction, is_commit);
            self.note(|| format!("transaction {transaction} ends, commit: {is_commit}"));
            for freed in ended.freed {
                self.queue.after(0, Event::Write(freed));
            }
            for relay in ended.notified {
                let delay = self.delay();
                self.queue.after(delay, Event::Notified(relay));
            }
            return;
        }
        let is_poison = self.plan.has_refusals && self.random.below(20) == 0;
        let poison_until_ms = if is_poison {
            self.now() + self.random.below(5_000) as i64
        } else {
            0
        };
        if let Some(sequence) = self.database.insert(transaction, poison_until_ms) {
            self.note(|| format!("transaction {transaction} inserts {sequence}"));
            let delay = self.random.below(open_ms * factor) as i64;
            self.queue.after(delay, Event::Write(transaction));
        }
    }

    /// Executes a statement. Its request or its response may be lost.
    fn call(&mut self, owner: Owner, call: Call) {
        let is_executed = !self.is_lost();
        let is_heard = is_executed && !self.is_lost();
        let now_ms = self.now();
        let mutation = self.plan.mutation;
        let result = match call {
            Call::Leases(call) => {
                let granted = is_executed.then(|| self.database.leases(now_ms, owner, &call, &self.plan));
                CallResult::Leases(granted.filter(|_| is_heard))
            }
            Call::Read(call) => {
                let rows = is_executed.then(|| self.database.read(owner, &call, mutation));
                CallResult::Rows(rows.filter(|_| is_heard))
            }
            Call::Mark(sequences) => {
                if is_executed {
                    sequences.iter().for_each(|sequence| self.mark(*sequence));
                }
                CallResult::Marked(is_heard)
            }
            Call::Note(sequence) => {
                if let Some(row) = self.database.rows.get_mut(&sequence).filter(|_| is_executed) {
                    row.attempts += 1;
                }
                CallResult::Noted(sequence, is_heard)
            }
            Call::Recheck(sequences) => {
                let is_reset = |sequence: &i64| self.database.rows.get(sequence).is_none_or(|row| row.attempts == 0);
                let reset = sequences.into_iter().filter(|sequence| is_heard && is_reset(sequence));
                CallResult::Rechecked(reset.collect())
            }
            Call::Sleep(slots) => CallResult::Slept(self.database.sleep(owner, &slots)),
            Call::Wake => return self.database.wake(owner),
        };
        self.note(|| format!("{owner}: {result:?}"));
        // A lost statement fails by its timeout.
        let mut delay = self.delay();
        if !is_heard && !matches!(result, CallResult::Slept(_)) {
            delay += self.random.below(self.plan.config.delivery_ms() as u64) as i64;
        }
        self.queue.after(delay, Event::CallResult(owner, result));
    }

    fn mark(&mut self, sequence: i64) {
        let Some(row) = self.database.rows.get_mut(&sequence) else {
            return;
        };
        row.is_marked = true;
        let published = row.published;
        self.checks.demand(published > 0, || {
            format!("event {sequence} is marked and was not published")
        });
    }

    /// The producer sends an event, unless its delivery has ended meanwhile.
    fn send(&mut self, owner: Owner, sequence: i64, end_ms: i64) {
        let ignores_end = self.plan.mutation == Some(Mutation::SendAfterDeadline);
        if self.now() >= end_ms && !ignores_end {
            self.queue
                .after(0, Event::Delivered(owner, sequence, Delivery::TimedOut));
            return;
        }
        if self.is_lost() {
            self.queue
                .at(end_ms, Event::Delivered(owner, sequence, Delivery::TimedOut));
            return;
        }
        let delay = self.delay();
        self.queue.after(delay, Event::Arrive(owner, sequence, end_ms));
    }

    fn arrive(&mut self, owner: Owner, sequence: i64, end_ms: i64) {
        let now_ms = self.now();
        let Some(row) = self.database.rows.get(&sequence).cloned() else {
            return;
        };
        if now_ms < self.broker_down_until_ms {
            self.queue
                .at(end_ms, Event::Delivered(owner, sequence, Delivery::TimedOut));
            return;
        }
        let delay = self.delay();
        let is_missing = topic_of(row.aggregate) == "topic-1" && now_ms < self.topic_missing_until_ms;
        if is_missing || now_ms < row.poison_until_ms {
            let scope = if is_missing {
                RefusedScope::Topic
            } else {
                RefusedScope::Event
            };
            self.queue
                .after(delay, Event::Delivered(owner, sequence, Delivery::Refused(scope)));
            return;
        }
        self.append(owner, &row);
        let (at_ms, delivery) = if self.is_lost() {
            (end_ms, Delivery::TimedOut)
        } else {
            (now_ms + delay, Delivery::Acknowledged)
        };
        self.queue.at(at_ms, Event::Delivered(owner, sequence, delivery));
    }

    /// The broker has an event.
    fn append(&mut self, owner: Owner, row: &database::StoredRow) {
        let (now_ms, sequence, aggregate) = (self.now(), row.sequence, row.aggregate);
        self.note(|| format!("{owner} publishes {sequence} of aggregate {aggregate}"));
        let checks = &mut self.checks;
        checks.demand(row.state == RowState::Committed, || {
            format!("event {sequence} is published and not committed")
        });
        checks.demand(self.database.has_lease(now_ms, owner, aggregate), || {
            format!("{owner} publishes event {sequence} without a lease")
        });
        if row.published > 0 {
            let has_faults = self.plan.has_faults;
            checks.demand(has_faults, || {
                format!("event {sequence} is published twice without a fault")
            });
        } else {
            let is_overtaken = |other: &database::StoredRow| {
                other.aggregate == aggregate
                    && other.sequence < sequence
                    && other.published == 0
                    && other.state == RowState::Committed
            };
            let overtaken = self.database.rows.values().find(|other| is_overtaken(other));
            checks.demand(overtaken.is_none(), || {
                format!("event {sequence} overtakes {overtaken:?}")
            });
            let last = self.last_published.insert(aggregate, sequence);
            checks.demand(last.is_none_or(|last| last < sequence), || {
                format!("event {sequence} is published after {last:?}, which overtakes it")
            });
        }
        if let Some(row) = self.database.rows.get_mut(&sequence) {
            row.published += 1;
        }
    }
}
