//! A relay process: the real machine, with a model of its driver.

use std::sync::Arc;

use milena_machines::outbox::{Aggregate, GrantedLeases, LeaseCall, ReadCall, RefusedScope, Relay, Row};

use super::{
    Event, Owner, World,
    database::{StoredRow, topic_of},
};
use crate::Mutation;

/// A statement.
#[derive(Debug, Clone)]
pub(super) enum Call {
    Leases(LeaseCall),
    Read(ReadCall),
    Mark(Vec<i64>),
    Note(i64),
    Recheck(Vec<i64>),
    Sleep(Vec<u16>),
    Wake,
}

/// Result of a statement.
#[derive(Debug, Clone)]
pub(super) enum CallResult {
    Leases(Option<GrantedLeases>),
    Rows(Option<Vec<StoredRow>>),
    Marked(bool),
    Noted(i64, bool),
    Rechecked(Vec<i64>),
    Slept(bool),
}

/// Result of a sent event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Acknowledged,
    Refused(RefusedScope),
    TimedOut,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) owner: Owner,
    /// `None` while it is down.
    pub(super) machine: Option<Relay<()>>,
    pub(super) paused_until_ms: i64,
    /// Difference between its clock and the simulator's.
    offset_ms: i64,
    timer_ms: Option<i64>,
}

impl Process {
    pub(super) fn new(relay: usize, world: &mut World) -> Self {
        Self {
            owner: Owner { relay, incarnation: 0 },
            machine: None,
            paused_until_ms: 0,
            offset_ms: world.random.below(1_000_000) as i64,
            timer_ms: None,
        }
    }

    fn now_ms(&self, world: &World) -> i64 {
        world.now() + self.offset_ms
    }

    pub(super) fn start(&mut self, world: &mut World) {
        self.owner.incarnation += 1;
        let (now_ms, seed) = (self.now_ms(world), world.random.next_u64());
        let mut machine = Relay::new(world.plan.config.clone(), now_ms, seed);
        machine.handle_listening(now_ms, world.plan.has_wakeups);
        self.machine = Some(machine);
        self.timer_ms = None;
        let owner = self.owner;
        world.note(|| format!("{owner} starts"));
        self.drive(world);
    }

    pub(super) fn crash(&mut self, world: &mut World) {
        let owner = self.owner;
        world.note(|| format!("{owner} is gone"));
        self.machine = None;
        // The database sees that the connection is closed.
        world.database.wake(owner);
    }

    /// Feeds the machine and carries out its decisions.
    pub(super) fn handle(&mut self, world: &mut World, feed: impl FnOnce(&mut Relay<()>, i64)) {
        let now_ms = self.now_ms(world);
        if let Some(machine) = &mut self.machine {
            feed(machine, now_ms);
            self.drive(world);
        }
    }

    pub(super) fn drive(&mut self, world: &mut World) {
        let now_ms = self.now_ms(world);
        let Some(machine) = &mut self.machine else { return };
        machine.handle_timeout(now_ms);
        let mut calls = vec![];
        calls.extend(machine.poll_lease(now_ms).map(Call::Leases));
        calls.extend(machine.poll_read(now_ms).map(Call::Read));
        calls.extend(machine.poll_mark(now_ms).map(Call::Mark));
        calls.extend(machine.poll_note().map(|note| Call::Note(note.sequence)));
        calls.extend(machine.poll_recheck(now_ms).map(Call::Recheck));
        if machine.poll_wake() {
            calls.push(Call::Wake);
        }
        calls.extend(machine.poll_sleep().map(Call::Sleep));
        for call in calls {
            // The commands of one connection keep their order: the announcement of sleep, and its end.
            let delay = match call {
                Call::Wake | Call::Sleep(_) => 1,
                _ => world.delay(),
            };
            world.queue.after(delay, Event::Call(self.owner, call));
        }
        let mut sent = vec![];
        while let Some(sequence) = machine.poll_publish(now_ms) {
            sent.push(sequence);
        }
        for sequence in &sent {
            let (delay, end_ms) = (world.delay(), world.now() + world.plan.config.delivery_ms());
            world.queue.after(delay, Event::Send(self.owner, *sequence, end_ms));
        }
        if world.plan.mutation == Some(Mutation::MarkBeforeAck) && !sent.is_empty() {
            sent.iter().for_each(|sequence| machine.handle_published(*sequence));
            return self.drive(world);
        }
        let is_ended = machine.is_ended();
        let timeout = machine.poll_timeout(now_ms).map(|at_ms| at_ms - self.offset_ms);
        if is_ended {
            return self.end(world);
        }
        if let Some(at_ms) = timeout
            && self
                .timer_ms
                .is_none_or(|timer_ms| at_ms < timer_ms || timer_ms <= world.now())
        {
            self.timer_ms = Some(at_ms);
            world.queue.at(at_ms.max(world.now() + 1), Event::Timer(self.owner));
        }
    }

    /// A relay that stopped is started again, as in a deployment.
    fn end(&mut self, world: &mut World) {
        self.crash(world);
        let delay = world.random.below(3_000) as i64;
        world.queue.after(delay, Event::Start(self.owner.relay));
    }

    pub(super) fn called(&mut self, result: CallResult, world: &mut World) {
        self.handle(world, |machine, now_ms| match result {
            CallResult::Leases(Some(granted)) => machine.handle_leases(now_ms, &granted),
            CallResult::Leases(None) => machine.handle_lease_failed(now_ms),
            CallResult::Rows(Some(rows)) => machine.handle_rows(now_ms, rows.iter().map(row).collect(), false),
            CallResult::Rows(None) => machine.handle_read_failed(now_ms),
            CallResult::Marked(true) => machine.handle_marked(),
            CallResult::Marked(false) => machine.handle_mark_failed(now_ms),
            CallResult::Noted(sequence, is_written) => machine.handle_noted(sequence, is_written),
            CallResult::Rechecked(reset) => machine.handle_rechecked(now_ms, &reset),
            CallResult::Slept(is_asleep) => machine.handle_sleep(now_ms, is_asleep),
        });
    }

    pub(super) fn delivered(&mut self, sequence: i64, delivery: Delivery, world: &mut World) {
        let ignores_failures = world.plan.mutation == Some(Mutation::IgnoreRefusals);
        self.handle(world, |machine, now_ms| match delivery {
            Delivery::Acknowledged => machine.handle_published(sequence),
            Delivery::Refused(_) if ignores_failures => machine.handle_published(sequence),
            Delivery::Refused(scope) => machine.handle_refused(now_ms, sequence, scope, "refused".to_owned()),
            Delivery::TimedOut => machine.handle_unavailable(now_ms, sequence),
        });
    }
}

fn row(stored: &StoredRow) -> Row<()> {
    Row {
        sequence: stored.sequence,
        slot: (stored.aggregate % 4) as u16,
        aggregate: Aggregate {
            kind: "order".into(),
            id: Arc::from(stored.aggregate.to_string()),
        },
        topic: Arc::from(topic_of(stored.aggregate)),
        bytes: 100,
        payload: (),
    }
}
