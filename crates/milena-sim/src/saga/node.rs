//! A service: reads events, and carries out the decisions of the machines in transactions.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::saga::{
    Action, Command, Decision, Definition, Input, Outcome, OwnerEvent, Reaction, SagaState, StepIndex, StepPhase,
    StepState, Stuck,
};

use super::{
    Event, Record, SagaNo, Sagas, TxId, World,
    store::{Effect, Store, Write},
};
use crate::Mutation;

/// The reason for a transaction.
#[derive(Debug, Clone)]
pub(super) enum Source {
    Record(Record),
    Start(Record),
    Timer(SagaNo),
    Command(SagaNo, Command),
}

impl Source {
    fn saga(&self) -> SagaNo {
        match self {
            Self::Record(record) | Self::Start(record) => record.saga,
            Self::Timer(saga) | Self::Command(saga, _) => *saga,
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    index: usize,
    pub(super) name: String,
    pub(super) reads: BTreeSet<String>,
    is_owner: bool,
    pub(super) is_up: bool,
    /// Counts crashes: what was planned before one does not happen after it.
    epoch: u32,
    pub(super) store: Store,
    open: BTreeMap<TxId, Transaction>,
    last_tx: TxId,
    /// Timers in memory, for the mutation that has no others.
    timers: BTreeMap<SagaNo, i64>,
}

#[derive(Debug)]
struct Transaction {
    source: Source,
    version: u64,
    writes: Vec<Write>,
}

impl Node {
    pub(super) fn new(index: usize, name: &str, definition: &Definition) -> Self {
        let reads = definition.topics_read_by(name).into_iter().map(str::to_owned);
        Self {
            index,
            name: name.to_owned(),
            reads: reads.collect(),
            is_owner: definition.owner() == name,
            is_up: true,
            epoch: 0,
            store: Store::default(),
            open: BTreeMap::new(),
            last_tx: 0,
            timers: BTreeMap::new(),
        }
    }

    /// Drops all that is not in the database. Returns what has to be done again.
    pub(super) fn crash(&mut self) -> Vec<Source> {
        self.is_up = false;
        self.epoch += 1;
        self.timers.clear();
        let open = std::mem::take(&mut self.open);
        let again = open.into_values().map(|tx| tx.source);
        // A timer is still in the database, and is found there.
        again.filter(|source| !matches!(source, Source::Timer(_))).collect()
    }

    /// Sagas with a timer that is due.
    pub(super) fn due(&self, now_ms: i64, mutation: Option<Mutation>) -> Vec<SagaNo> {
        let is_due = |due: Option<i64>| due.is_some_and(|due| due <= now_ms);
        if mutation == Some(Mutation::SagaTimersInMemory) {
            let timers = self.timers.iter().filter(|(_, due)| is_due(Some(**due)));
            return timers.map(|(saga, _)| *saga).collect();
        }
        let sagas = self.store.sagas.iter();
        sagas
            .filter(|(_, state)| is_due(state.next_due_ms()))
            .map(|(saga, _)| *saga)
            .collect()
    }

    pub(super) fn stuck(&self) -> Vec<SagaNo> {
        let sagas = self.store.sagas.iter().filter(|(_, state)| state.stuck.is_some());
        sagas.map(|(saga, _)| *saga).collect()
    }

    fn decide(&self, source: &Source, world: &mut World) -> Vec<Write> {
        let mut writes = vec![];
        match source {
            Source::Record(record) => {
                self.react(record, world, &mut writes);
                if self.is_owner {
                    self.follow(record, world, &mut writes);
                }
                writes.push(Write::Processed(record.id));
            }
            Source::Start(record) => {
                self.follow(record, world, &mut writes);
                writes.push(Write::Processed(record.id));
                writes.push(Write::Outbox(record.clone()));
            }
            Source::Timer(saga) => self.advance(*saga, Input::Timer, world, &mut writes),
            Source::Command(saga, command) => self.advance(*saga, Input::Command(*command), world, &mut writes),
        }
        writes
    }

    /// The part of a participant.
    fn react(&self, record: &Record, world: &mut World, writes: &mut Vec<Write>) {
        let step_header = record.saga_step.as_deref();
        let reactions = world.definition.reactions(&self.name, &record.event_type, step_header);
        for reaction in reactions {
            let step = reaction.step();
            let state = self.store.step(record.saga, step);
            let decision = state.handle(&world.definition, reaction, &record.event_type);
            world.note(|| {
                format!(
                    "{} saga {} {reaction:?} of {state:?}: {decision:?}",
                    self.name, record.saga
                )
            });
            let phase = state.phase;
            let call = Call {
                reaction,
                phase,
                decision,
            };
            carry_out(record.saga, call, world, writes);
        }
    }

    /// The part of the owner.
    fn follow(&self, record: &Record, world: &mut World, writes: &mut Vec<Write>) {
        if world.definition.is_followed(&record.event_type) {
            writes.push(Write::Heard(record.clone()));
            self.advance(record.saga, Input::Event(&record.event_type), world, writes);
        }
    }

    fn advance(&self, saga: SagaNo, input: Input<'_>, world: &mut World, writes: &mut Vec<Write>) {
        let state = match (self.store.sagas.get(&saga), input) {
            (Some(state), _) => state.clone(),
            (None, Input::Event(_)) => SagaState::new(&world.definition, world.now()),
            (None, _) => return,
        };
        let now = world.now();
        let (phase, pivot) = (state.phase, world.definition.pivot());
        let transition = state.handle(&world.definition, input, now);
        world.note(|| format!("owner, saga {saga}, {input:?}: {transition:?}"));
        world.checks.moved(saga, phase, &transition.state, pivot);
        for action in &transition.actions {
            self.act(saga, *action, world, writes);
        }
        writes.push(Write::Saga(transition.state));
    }

    fn act(&self, saga: SagaNo, action: Action, world: &mut World, writes: &mut Vec<Write>) {
        match action {
            Action::Emit(event) => {
                let Some(event_type) = event.event_type(&world.definition).map(str::to_owned) else {
                    return;
                };
                let step = match event {
                    OwnerEvent::CompensationRequested(step) => {
                        world.definition.step(step).map(|step| step.name.clone())
                    }
                    OwnerEvent::Completed | OwnerEvent::Cancelled => None,
                };
                let record = world.record(saga, &event_type, step);
                writes.push(Write::Outbox(record));
            }
            Action::Redeliver(step) => self.redeliver(saga, step, world, writes),
            Action::MarkStuck(Stuck::Conflict(step)) => {
                world
                    .checks
                    .demand(false, || format!("saga {saga}: events of step {step:?} disagree"));
            }
            Action::End(_) | Action::MarkStuck(_) | Action::Refuse(_) | Action::Ignore(_) => {}
        }
    }

    fn redeliver(&self, saga: SagaNo, step: StepIndex, world: &World, writes: &mut Vec<Write>) {
        let events = world.definition.step(step).map(|step| step.on.clone());
        for event in events.into_iter().flatten() {
            if let Some(record) = self.store.heard.get(&(saga, event)) {
                writes.push(Write::Outbox(record.clone()));
            }
        }
    }

    /// Writes and effects of one commit.
    fn apply(&mut self, saga: SagaNo, writes: Vec<Write>, world: &mut World) {
        self.plan_next(&writes, world);
        for write in writes {
            match &write {
                Write::Effect(step, effect) => world.checks.effect(saga, *step, *effect, &world.definition),
                Write::Saga(state) => match state.next_due_ms() {
                    Some(due) => drop(self.timers.insert(saga, due)),
                    None => drop(self.timers.remove(&saga)),
                },
                _ => {}
            }
            self.store.apply(saga, write);
        }
        *self.store.versions.entry(saga).or_insert(0) += 1;
    }
}

impl Node {
    /// The relay is woken by a row in the outbox, and the timers by their time; both may be late.
    fn plan_next(&self, writes: &[Write], world: &mut World) {
        let pause = 10 + world.delay(600);
        for write in writes {
            match write {
                Write::Outbox(_) => world.queue.after(pause / 4, Event::Relay(self.index)),
                Write::Saga(state) => {
                    let due = state.next_due_ms();
                    due.into_iter().for_each(|due| world.queue.at(due + pause, Event::Scan));
                }
                _ => {}
            }
        }
    }
}

/// A decision about an event, and the phase of the step before it.
struct Call {
    reaction: Reaction,
    phase: StepPhase,
    decision: Decision,
}

fn carry_out(saga: SagaNo, call: Call, world: &mut World, writes: &mut Vec<Write>) {
    let Call {
        reaction,
        phase,
        decision,
    } = call;
    let index = reaction.step();
    let Some(step) = world.definition.step(index).cloned() else {
        return;
    };
    let mutation = world.plan.mutation;
    let repeats = mutation == Some(Mutation::SagaCompensationRepeats)
        && matches!(reaction, Reaction::Compensate(_))
        && phase == StepPhase::Compensated;
    let (state, emission) = match decision {
        Decision::Perform => {
            let fails = step.failed.is_some() && world.random.below(world.plan.failures) == 0;
            let outcome = if fails { Outcome::Failed } else { Outcome::Done };
            let effect = if fails { Effect::Failed } else { Effect::Performed };
            writes.push(Write::Effect(index, effect));
            match StepState::performed(&step, outcome) {
                Some((state, emission)) => (Some(state), Some(emission)),
                None => return world.checks.demand(false, || format!("step {} cannot end", step.name)),
            }
        }
        Decision::Compensate => {
            writes.push(Write::Effect(index, Effect::Undone));
            match StepState::compensated(&step) {
                Some((state, emission)) => (Some(state), Some(emission)),
                None => {
                    return world
                        .checks
                        .demand(false, || format!("step {} cannot be undone", step.name));
                }
            }
        }
        Decision::Store(state, emission) => {
            if state.phase == StepPhase::Cancelled {
                writes.push(Write::Effect(index, Effect::Cancelled));
            }
            let forgets = mutation == Some(Mutation::SagaForgetsTombstone);
            let is_forgotten = forgets && state.phase == StepPhase::Cancelled;
            ((!is_forgotten).then_some(state), emission)
        }
        Decision::Ignore(_) if repeats => {
            writes.push(Write::Effect(index, Effect::Undone));
            (None, None)
        }
        Decision::Ignore(_) | Decision::Refuse(_) => (None, None),
    };
    if let Some(state) = state {
        writes.push(Write::Step(index, state));
    }
    if let Some(emission) = emission {
        let record = world.record(saga, &emission.event, None);
        writes.push(Write::Outbox(record));
    }
}

/// The two parts of a transaction that a mutation splits.
fn split(writes: Vec<Write>, mutation: Option<Mutation>) -> (Vec<Write>, Vec<Write>) {
    match mutation {
        Some(Mutation::SagaDedupAfterEffect) => {
            writes.into_iter().partition(|write| matches!(write, Write::Effect(..)))
        }
        Some(Mutation::SagaOutboxOutside) => writes.into_iter().partition(|write| !matches!(write, Write::Outbox(_))),
        _ => (writes, vec![]),
    }
}

impl Sagas {
    pub(super) fn begin(&mut self, index: usize, source: Source) {
        let owner = self.owner();
        let Self { world, nodes } = self;
        let Some(node) = nodes.get_mut(index) else { return };
        if !node.is_up {
            // A timer is found again by the next scan.
            if !matches!(source, Source::Timer(_)) {
                let delay = 200 + world.delay(500);
                world.queue.after(delay, Event::Begin(index, source));
            }
            return;
        }
        if let Source::Record(record) = &source {
            if node.store.processed.contains(&record.id) {
                return world.note(|| format!("{} skips the duplicate {record:?}", node.name));
            }
            // Participants that do not process an event are the harder case.
            let is_bad = world.happens(world.plan.dead_letters);
            if is_bad && (index != owner || world.random.below(3) == 0) {
                world.note(|| format!("dead letter of {index}: {record:?}"));
                return world.dead_letters.push_back((index, record.clone()));
            }
        }
        let writes = node.decide(&source, world);
        node.last_tx += 1;
        let tx = node.last_tx;
        let version = node.store.version(source.saga());
        node.open.insert(
            tx,
            Transaction {
                source,
                version,
                writes,
            },
        );
        let epoch = node.epoch;
        let delay = world.delay(world.plan.transaction_ms);
        world.queue.after(delay, Event::Commit(index, epoch, tx));
    }

    pub(super) fn commit(&mut self, index: usize, epoch: u32, tx: TxId) {
        let Self { world, nodes } = self;
        let Some(node) = nodes.get_mut(index).filter(|node| node.epoch == epoch) else {
            return;
        };
        let Some(transaction) = node.open.get_mut(&tx) else {
            return;
        };
        let (saga, mutation) = (transaction.source.saga(), world.plan.mutation);
        let is_guarded = mutation != Some(Mutation::SagaStateUnguarded);
        let is_first = node.store.version(saga) == transaction.version;
        let is_rolled_back = world.happens(world.plan.rollbacks);
        let has_processed = |write: &Write| matches!(write, Write::Processed(id) if node.store.processed.contains(id));
        let is_duplicate = transaction.writes.iter().any(has_processed);
        if is_guarded && !is_first || is_rolled_back || is_duplicate {
            let again = node.open.remove(&tx).map(|transaction| transaction.source);
            if let Some(source) = again {
                let delay = world.delay(300);
                world.queue.after(delay, Event::Begin(index, source));
            }
            return;
        }
        let (first, rest) = split(std::mem::take(&mut transaction.writes), mutation);
        let is_whole = rest.is_empty();
        transaction.writes = rest;
        node.apply(saga, first, world);
        world.note(|| format!("{index} commits transaction {tx} of saga {saga}"));
        if is_whole {
            // The offset is not committed in time, and the record comes again.
            let transaction = node.open.remove(&tx);
            if let Some(Transaction { source, .. }) = transaction
                && matches!(source, Source::Record(_))
                && world.happens(15)
            {
                let delay = world.delay(3_000);
                world.queue.after(delay, Event::Begin(index, source));
            }
        } else {
            let delay = world.delay(300);
            world.queue.after(delay, Event::CommitRest(index, epoch, tx));
        }
    }

    pub(super) fn commit_rest(&mut self, index: usize, epoch: u32, tx: TxId) {
        let Self { world, nodes } = self;
        if let Some(node) = nodes.get_mut(index).filter(|node| node.epoch == epoch)
            && let Some(Transaction { source, writes, .. }) = node.open.remove(&tx)
        {
            node.apply(source.saga(), writes, world);
        }
    }
}
