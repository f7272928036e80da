//! An instance of the application: the real machine, and a driver that carries out its actions.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::app::{
    Acceptance, Action, Arrival, Assignment, BreakerState, CommitOffset, CommitResult, Delivery, Dispatch, Failure,
    HandlerId, Outcome, PartitionId, Publish, PublishResult, RecordId, Role, Scheduler, SourceId, StallReason,
    WhenStalled,
};

use super::{
    Event, Life, World,
    checks::{Base, Probes},
    cluster::name,
    record::{Nature, Record, Records},
    transaction::Transaction,
};
use crate::Mutation;
use killers::tells_of_starts;

mod arrives;
mod held;
mod killers;
mod mistakes;
mod stored;
mod taken;
mod whole;

pub(super) use arrives::{apply, commit_arrives, held_record, write};

/// A handler that crashes its process does not end by itself.
const NEVER_MS: i64 = 1_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Instance {
    pub(super) life: Option<Life>,
    pub(super) work: Option<Scheduler<Records>>,
    pub(super) held: BTreeMap<usize, Held>,
    /// Records in handlers.
    runs: BTreeMap<RecordId, Run>,
    /// Runs that were handed out whole.
    wholes: BTreeMap<RecordId, Vec<Run>>,
    /// Records being published, and their origins.
    pub(super) publishing: BTreeMap<RecordId, Run>,
    /// Records that are acknowledged, and not done before others are.
    acked: BTreeMap<RecordId, Run>,
    /// Records that requested more time.
    asked: BTreeSet<u64>,
    in_flight: usize,
    last_call: u64,
    probes: Probes,
    wakes_at: Option<i64>,
    restart_ms: Option<i64>,
    pub(super) transaction: Transaction,
    mistakes: mistakes::Memory,
}

/// An owned partition.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) id: PartitionId,
    position: i64,
    paused: bool,
    fetching: bool,
    base: Base,
    /// The records that it has done.
    pub(super) done: BTreeSet<i64>,
    highest_seen: i64,
    /// It was not always stopped in order.
    pub(super) unclean: bool,
    /// The last commit is not acknowledged.
    pub(super) unacked: bool,
}

/// A call of the handler.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) life: Life,
    pub(super) record: RecordId,
    pub(super) id: PartitionId,
    pub(super) partition: usize,
    pub(super) offset: i64,
    pub(super) attempt: u32,
    pub(super) data: Record,
    /// Records that were handed out together have the same number.
    pub(super) call: u64,
    pub(super) base: Option<Base>,
    /// Its offset is stored with its effect.
    pub(super) is_stored: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Fetched {
    partition: usize,
    id: PartitionId,
    records: Vec<(i64, Record)>,
    next: i64,
}

#[derive(Debug, Clone)]
pub(super) struct Publishing {
    record: RecordId,
    what: Publish,
    acked: bool,
    /// It is in the log already.
    written: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Commit {
    source: SourceId,
    offsets: Vec<(usize, CommitOffset)>,
    /// It is reported as a success, and was not even sent.
    is_late: bool,
}

impl Instance {
    pub(super) fn start(&mut self, world: &mut World, life: Life) {
        let seed = world.random.next_u64();
        let work = match Scheduler::new(world.plan.config.clone(), seed) {
            Ok(work) => work,
            Err(error) => return world.checks.fail(error.to_string()),
        };
        self.transaction.give_up(world);
        *self = Self {
            life: Some(life),
            work: Some(work),
            ..Self::default()
        };
        world.queue.after(1, Event::Poll(life));
        if world.plan.config.delivery == Delivery::ExactlyOnce {
            world.queue.after(100, Event::Window(life));
        }
    }

    /// Stops in order, and comes back.
    pub(super) fn stop(&mut self, world: &mut World, again_ms: i64) {
        let (Some(work), Some(life)) = (&mut self.work, self.life) else {
            return;
        };
        self.restart_ms = Some(again_ms);
        world.cluster.leave(life);
        work.handle_shutdown(world.queue.now());
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.restart_ms.is_some()
    }

    pub(super) fn assigned(&mut self, world: &mut World, partition: usize) {
        self.lose(world, partition);
        let (Some(work), Some(life)) = (&mut self.work, self.life) else {
            return;
        };
        let mut committed = world.cluster.committed[partition].clone();
        let position = match &world.database {
            Some(database) => database.position(partition, committed.as_ref()),
            None => committed.as_ref().map_or(0, |committed| committed.offset),
        };
        let base = Base::at(committed.as_ref(), position);
        if let Some(committed) = &mut committed
            && world.plan.mutation == Some(Mutation::ForgetMap)
        {
            committed.metadata.clear();
        }
        let topic = partition / world.plan.partitions;
        let role = match topic.checked_sub(1) {
            None => Role::Main,
            Some(_) if world.plan.holds_keys() => Role::HeldKeys,
            Some(tier) => Role::RetryTopic {
                index: tier as u8,
                delay_ms: world.plan.tiers()[tier],
            },
        };
        let assignment = Assignment {
            partition: name(&world.plan, partition),
            source: SourceId(topic as u16),
            handler: HandlerId(0),
            role,
            position,
            committed,
            leader_epoch: None,
        };
        let id = work.handle_assigned(world.queue.now(), assignment);
        world.cluster.took(partition, id);
        if let Some(database) = &mut world.database {
            database.claim(life, partition, id);
            world.checks.claimed(life, partition, id);
        }
        world.note(|| format!("{} has {partition} from {position} on", life.tag()));
        self.held.insert(
            partition,
            Held {
                id,
                position,
                paused: false,
                fetching: false,
                base,
                done: BTreeSet::new(),
                highest_seen: -1,
                unclean: false,
                unacked: false,
            },
        );
        self.read_held(world, partition, id);
    }

    pub(super) fn revoking(&mut self, world: &mut World, partition: usize) {
        if let (Some(work), Some(held)) = (&mut self.work, self.held.get(&partition)) {
            work.handle_revoking(world.queue.now(), &[held.id]);
        }
    }

    /// A partition is lost.
    pub(super) fn lose(&mut self, world: &mut World, partition: usize) {
        if let (Some(work), Some(held)) = (&mut self.work, self.held.remove(&partition)) {
            work.handle_lost(world.queue.now(), &[held.id]);
        }
    }

    pub(super) fn happen(&mut self, world: &mut World, event: Event) {
        let now = world.queue.now();
        let (Some(work), Some(life)) = (&mut self.work, self.life) else {
            return;
        };
        match event {
            Event::Wake(_) => {
                self.wakes_at = None;
                let ahead_ms = if world.plan.mutation == Some(Mutation::WakeEarly) {
                    100
                } else {
                    0
                };
                work.handle_timeout(now + ahead_ms);
            }
            Event::Poll(_) => self.poll(world, life),
            Event::Arrive(_, fetched) => self.arrive(world, fetched),
            Event::HandlerEnds(_, run) => self.handler_ends(world, run),
            Event::RunEnds(_, record) => self.run_ends(world, record),
            Event::Published(_, publishing) if world.plan.config.delivery == Delivery::ExactlyOnce => {
                self.published_in_transaction(world, life, publishing.record, publishing.acked);
            }
            Event::Published(_, publishing) => self.published(world, &publishing),
            Event::CommitAnswered(_, source, result) => {
                for (partition, held) in &mut self.held {
                    if partition / world.plan.partitions == usize::from(source.0) {
                        held.unacked = result != CommitResult::Ok;
                    }
                }
                work.handle_committed(now, source, result);
            }
            Event::HearsLoss(_, partitions) => {
                for partition in partitions {
                    let owns = |held: &Held| world.cluster.is_owner(life, partition, held.id);
                    if self.held.get(&partition).is_some_and(|held| !owns(held)) {
                        self.lose(world, partition);
                    }
                }
            }
            Event::HeldAnswered(_, ids) => self.held_answered(world, &ids),
            Event::Window(_) => self.window(world, life),
            Event::TransactionEnds(_, ending) => self.transaction_ended(world, life, ending.committed),
            Event::Operator(_) => {
                for held in self.held.values() {
                    work.restart_partition(now, held.id);
                }
            }
            _ => {}
        }
    }

    /// Polls the partitions that are not paused.
    fn poll(&mut self, world: &mut World, life: Life) {
        let is_quiet = world.is_quiet();
        let wait_ms = if is_quiet {
            300
        } else {
            5 + world.random.below(40) as i64
        };
        world.queue.after(wait_ms, Event::Poll(life));
        for (&partition, held) in &mut self.held {
            if held.paused || held.fetching {
                continue;
            }
            let max = if is_quiet {
                50
            } else {
                1 + world.random.below(8) as usize
            };
            let (records, next) = world.cluster.read(partition, held.position, max);
            if next == held.position {
                continue;
            }
            held.fetching = true;
            let fetched = Fetched {
                partition,
                id: held.id,
                records,
                next,
            };
            let delay_ms = world.random.below(20) as i64;
            world.queue.after(delay_ms, Event::Arrive(life, fetched));
        }
    }

    fn arrive(&mut self, world: &mut World, fetched: Fetched) {
        let now = world.queue.now();
        let Some(held) = self
            .held
            .get_mut(&fetched.partition)
            .filter(|held| held.id == fetched.id)
        else {
            return;
        };
        let Some(work) = &mut self.work else { return };
        held.fetching = false;
        held.position = fetched.next;
        let mut left = vec![];
        for (offset, record) in fetched.records {
            held.highest_seen = offset;
            if !self.mistakes.swallows(world.plan.mutation, fetched.partition, offset) {
                left.push((offset, record));
            }
        }
        let as_runs = world.random.below(4) > 0;
        for (offset, records) in whole::runs(left, as_runs) {
            let last = offset + records.len() as i64 - 1;
            let arrival = Arrival {
                offset,
                leader_epoch: None,
                bytes: 10 * records.len() as u32,
                retry: records.first().and_then(|record| record.retry),
                payload: Records(records),
            };
            match work.accept(now, held.id, arrival) {
                Acceptance::Taken(_) => {}
                Acceptance::Finished if world.checks.is_settled(fetched.partition, last) => {}
                Acceptance::Finished => world.checks.fail(format!("offset {last} counts as done and is not")),
                Acceptance::Stale => return,
            }
        }
        work.handle_position(now, held.id, fetched.next);
    }

    fn handler_ends(&mut self, world: &mut World, run: Run) {
        if self.runs.remove(&run.record).is_none() {
            return;
        }
        self.in_flight = self.in_flight.saturating_sub(1);
        let now = world.queue.now();
        let calls = if self.asked.insert(run.data.id) && run.data.nature == Nature::Later {
            1
        } else {
            2
        };
        let emits = world.plan.emits;
        let outcome = run.data.outcome(run.attempt, calls, world.dependency_fails, emits);
        let outcome = self.mistakes.outcome(world.plan.mutation, &run, outcome);
        world.note(|| {
            format!(
                "{} ended {} {} #{}: {outcome:?}",
                run.life.tag(),
                run.partition,
                run.offset,
                run.data.id
            )
        });
        let mut outcome = outcome;
        match outcome {
            Outcome::Done => match self.commit_effect(world, &run) {
                Some(committed) => outcome = committed,
                None => return,
            },
            Outcome::Emit if world.plan.config.delivery != Delivery::ExactlyOnce => {
                world.checks.effect(&world.plan, &world.cluster, &run.data);
            }
            Outcome::Failed(Failure::Retry) => world.checks.failed(now, &world.plan, &run),
            Outcome::RetryAfter { .. } => world.checks.asked_for_later(now, &run),
            _ => {}
        }
        let says_nothing = !matches!(
            outcome,
            Outcome::Done | Outcome::Emit | Outcome::Failed(Failure::Dependency(_))
        );
        if says_nothing {
            self.probes.under_way.remove(&run.record);
        }
        let record = run.record;
        self.publishing.insert(record, run);
        self.acked.remove(&record);
        if let Some(work) = &mut self.work {
            work.handle_finished(now, record, outcome);
        }
    }

    /// A record is done for good.
    fn settle(&mut self, world: &mut World, run: &Run) {
        world.checks.settle(run.partition, run.offset);
        world.checks.over(run);
        if let Some(held) = self.held.get_mut(&run.partition).filter(|held| held.id == run.id) {
            held.done.insert(run.offset);
        }
    }

    fn published(&mut self, world: &mut World, publishing: &Publishing) {
        let now = world.queue.now();
        let Some(run) = self.publishing.get(&publishing.record).cloned() else {
            return;
        };
        let mut result = PublishResult::Failed;
        if publishing.acked {
            result = write(world, &run, publishing.what);
            if publishing.what == Publish::Output {
                if !publishing.written {
                    world.checks.wrote(&world.plan, &run);
                }
                world.checks.taken(&world.plan, &run);
            } else {
                world.checks.gave_up_output(&world.plan, &run);
            }
            self.publishing.remove(&publishing.record);
            self.acked.insert(publishing.record, run);
        }
        if let Some(work) = &mut self.work {
            work.handle_published(now, publishing.record, result);
        }
        self.settle_acked(world);
    }

    /// Carries out the machine's actions until there are none.
    pub(super) fn pump(&mut self, world: &mut World) {
        let now = world.queue.now();
        let mut dispatched = vec![];
        loop {
            let Some(life) = self.life else { return };
            let Some(work) = &mut self.work else { return };
            if let Some(action) = work.poll_action() {
                self.act(world, life, action);
                continue;
            }
            let room = world.plan.in_flight_max.saturating_sub(self.in_flight);
            let max = room.min(1 + world.random.below(8) as usize);
            if work.poll_dispatch(now, max, &mut dispatched).is_none() {
                if work.has_action() {
                    continue;
                }
                break;
            }
            self.last_call += 1;
            for dispatched in &dispatched {
                self.begin(world, life, *dispatched);
            }
        }
        let (Some(life), Some(work)) = (self.life, &self.work) else {
            return;
        };
        if let Some(at) = work
            .poll_timeout()
            .filter(|at| self.wakes_at.is_none_or(|wakes_at| *at < wakes_at))
        {
            self.wakes_at = Some(at.max(now));
            world.queue.at(at.max(now), Event::Wake(life));
        }
    }

    fn begin(&mut self, world: &mut World, life: Life, dispatched: Dispatch) {
        let Some(work) = &self.work else { return };
        let partition = self.held.iter().find(|(_, held)| held.id == dispatched.partition);
        let partition = partition.map(|(partition, _)| *partition);
        let is_stored = partition.is_some_and(|partition| self.is_stored(world, partition, dispatched));
        let found = self.held.iter().find(|(_, held)| held.id == dispatched.partition);
        let (Some((&partition, held)), Some(data)) = (found, work.payload(dispatched.record)) else {
            return world.checks.fail(format!("{dispatched:?} is not there"));
        };
        let run = |(data, offset): (&Record, i64)| Run {
            life,
            record: dispatched.record,
            id: dispatched.partition,
            partition,
            offset,
            attempt: dispatched.attempt,
            data: *data,
            call: self.last_call,
            base: Some(held.base.clone()),
            is_stored,
        };
        let mut runs: Vec<Run> = data.0.iter().zip(dispatched.offset..).map(run).collect();
        if runs.len() != dispatched.count as usize {
            return world.checks.fail(format!("{dispatched:?} is another run than it says"));
        }
        if runs.len() == 1 || world.plan.handler().batch.is_some() {
            runs.iter().for_each(|run| self.starts(world, run));
        } else {
            // Each record of a run is a call of its own, which begins when those before it are done.
            for run in &mut runs {
                self.last_call += 1;
                run.call = self.last_call;
            }
        }
        self.check_probes(world, dispatched.record);
        self.in_flight += runs.len();
        self.check_alone(world, partition);
        let kills = runs.iter().any(|run| run.data.nature == Nature::Kills);
        let slow = world.random.below(12) == 0;
        let most = if slow { world.plan.slow_ms } else { 60 };
        let takes_ms = world.random.below(most) as i64;
        if kills {
            let in_ms = if world.random.below(2) == 0 { 0 } else { takes_ms };
            world.queue.after(in_ms, Event::Kills(life, dispatched.record));
        }
        let takes_ms = if kills { NEVER_MS } else { takes_ms };
        if let [run] = &*runs {
            self.runs.insert(dispatched.record, run.clone());
            world.queue.after(takes_ms, Event::HandlerEnds(life, run.clone()));
        } else {
            self.wholes.insert(dispatched.record, runs);
            world.queue.after(takes_ms, Event::RunEnds(life, dispatched.record));
        }
    }

    fn starts(&self, world: &mut World, run: &Run) {
        let (now, tag) = (world.queue.now(), run.life.tag());
        world.note(|| {
            let (partition, offset, attempt) = (run.partition, run.offset, run.attempt);
            format!("{tag} begins {partition} {offset} attempt {attempt}")
        });
        world.checks.started(now, &world.plan, &world.cluster, run);
    }

    fn check_probes(&mut self, world: &mut World, record: RecordId) {
        let breaker = self
            .work
            .as_ref()
            .and_then(|work| work.breaker(milena_machines::app::BreakerId(0)));
        let uses_it = !world.plan.handler().breakers.is_empty();
        let state = breaker.filter(|_| uses_it).map(|breaker| breaker.state());
        match state {
            Some(BreakerState::Open) => world
                .checks
                .fail(format!("{record:?} begins while the breaker is open")),
            Some(BreakerState::HalfOpen) => {
                self.probes.under_way.insert(record);
                let most = world.plan.config.breakers[0].probes as usize;
                if self.probes.under_way.len() > most {
                    world.checks.fail(format!("{record:?} is one probe too many"));
                }
            }
            _ => {}
        }
    }

    fn act(&mut self, world: &mut World, life: Life, action: Action) {
        let tag = life.tag();
        world.note(|| format!("{tag} {action:?}"));
        match action {
            Action::Pause(id) => self.set_paused(id, true),
            Action::Resume(_) if world.plan.mutation == Some(Mutation::ForgetResume) => {}
            Action::Resume(id) => self.set_paused(id, false),
            Action::Publish { record, what } => self.publish(world, life, record, what),
            Action::CheckKeyHolds(ids) => self.ask_held(world, life, ids),
            Action::Commit { source, offsets } => self.commit(world, life, source, offsets),
            Action::Cancel(record) => self.cancelled(world, record),
            Action::Released(id) => self.released(world, life, id),
            Action::Barrier => self.end_transaction(world, life),
            Action::BarrierNeeded => self.begin_barrier(world),
            Action::Stopped { partition, offset, .. } => {
                world.checks.begins_anew(life, partition, offset);
                world.queue.after(500, Event::Operator(life));
            }
            Action::Stalled { reason, cancelled, .. } => {
                self.check_stall(world, reason);
                self.called_off(world, life, &cancelled);
            }
            Action::BreakerChanged { .. } => self.probes.under_way.clear(),
            Action::Isolating { .. } | Action::Lost { .. } => {}
            Action::Skipped { offset, .. } => world
                .checks
                .fail(format!("offset {offset} is skipped, and no policy skips")),
            Action::Quarantined {
                partition,
                offset,
                owners,
            } => self.quarantined(world, partition, offset, owners),
            Action::Closed => {
                self.life = None;
                world.cluster.expire(life);
                let again_ms = self.restart_ms.unwrap_or(0);
                world.queue.after(again_ms, Event::Start(life.instance));
            }
        }
    }

    /// Partitions without progress must have a valid reason.
    fn check_stall(&self, world: &mut World, why: StallReason) {
        let handler = world.plan.handler();
        let has_limit = handler.concurrency.is_some()
            || handler.bulkhead.is_some()
            || handler.rate.is_some()
            || handler.batch.is_some();
        let is_busy = has_limit || self.in_flight >= world.plan.in_flight_max;
        let barrier = world.plan.config.delivery == Delivery::ExactlyOnce;
        match why {
            StallReason::Idle => world.checks.fail("a stall has no cause".to_owned()),
            // Busy ones may have been cancelled in the same moment.
            StallReason::WaitsForHandler
                if !is_busy && !barrier && world.plan.config.when_stalled == WhenStalled::Report =>
            {
                world
                    .checks
                    .fail("a stall is put down to a handler that has nothing to do".to_owned());
            }
            _ => {}
        }
    }

    fn set_paused(&mut self, id: PartitionId, paused: bool) {
        if let Some(held) = self.held.values_mut().find(|held| held.id == id) {
            held.paused = paused;
        }
    }

    fn cancelled(&mut self, world: &mut World, record: RecordId) {
        world.checks.crashed();
        self.probes.under_way.remove(&record);
        let alone = self.runs.remove(&record).or_else(|| self.publishing.remove(&record));
        let whole = self.wholes.remove(&record).unwrap_or_default();
        for run in alone.into_iter().chain(whole) {
            if let Some(held) = self.held.get_mut(&run.partition).filter(|held| held.id == run.id) {
                held.unclean = true;
            }
            if world.plan.mutation != Some(Mutation::LeakInFlight) {
                self.in_flight = self.runs.len() + self.wholes.values().map(Vec::len).sum::<usize>();
            }
        }
    }

    fn publish(&mut self, world: &mut World, life: Life, record: RecordId, what: Publish) {
        if what != Publish::Output {
            self.diverted(life, record);
        }
        if world.plan.config.delivery == Delivery::ExactlyOnce {
            return self.write_in_transaction(world, life, record, what);
        }
        let mut acked = !world.publishing_fails;
        let Some(run) = self.publishing.get(&record).cloned() else {
            return world
                .checks
                .fail(format!("{record:?} is to be published and did not run"));
        };
        if world.plan.mutation == Some(Mutation::DeadLettersUnawaited) {
            let result = if acked {
                write(world, &run, what)
            } else {
                PublishResult::AckedAt(0)
            };
            self.settle_unchecked(world, &run);
            if let Some(work) = &mut self.work {
                work.handle_published(world.queue.now(), record, result);
            }
            return;
        }
        let twice_allowed = world.plan.config.delivery == Delivery::AtLeastOnce;
        if twice_allowed && world.random.below(12) == 0 {
            // It is written, but without an acknowledgement.
            write(world, &run, what);
            if what == Publish::Output {
                world.checks.wrote(&world.plan, &run);
            }
            acked = false;
        }
        let takes_ms = 1 + world.random.below(40) as i64;
        let is_taken = what == Publish::Output && world.random.below(2) == 0;
        let written = is_taken && acked && world.plan.mutation != Some(Mutation::TakenUnordered);
        let publishing = Publishing {
            record,
            what,
            acked,
            written,
        };
        world.queue.after(takes_ms, Event::Published(life, publishing));
        if is_taken {
            self.take(world, &run, written);
        }
    }

    fn settle_unchecked(&mut self, world: &mut World, run: &Run) {
        world.checks.over(run);
        if let Some(held) = self.held.get_mut(&run.partition).filter(|held| held.id == run.id) {
            held.unclean = true;
        }
    }

    fn commit(&mut self, world: &mut World, life: Life, source: SourceId, offsets: Vec<CommitOffset>) {
        let mut found = vec![];
        for mut offset in offsets {
            let held = self.held.iter_mut().find(|(_, held)| held.id == offset.id);
            let Some((&partition, held)) = held else { continue };
            held.unacked = true;
            self.mistakes
                .commit(world.plan.mutation, held.highest_seen, &held.done, &mut offset);
            if world.plan.mutation == Some(Mutation::KeepStarts) {
                mistakes::keep_starts(world.cluster.committed[partition].as_ref(), &mut offset);
            }
            found.push((partition, offset));
        }
        let gives_back = found
            .iter()
            .any(|(partition, _)| !world.cluster.keeps(life, *partition));
        if world.plan.mutation == Some(Mutation::CommitUnsent) && gives_back {
            return world
                .queue
                .after(1, Event::CommitAnswered(life, source, CommitResult::Ok));
        }
        let takes_ms = 1 + world.random.below(60) as i64;
        let is_late = world.plan.mutation == Some(Mutation::StartsUnawaited) && tells_of_starts(&found);
        if is_late {
            world
                .queue
                .after(0, Event::CommitAnswered(life, source, CommitResult::Ok));
        }
        let commit = Commit {
            source,
            offsets: found,
            is_late,
        };
        world.queue.after(takes_ms, Event::CommitArrives(life, commit));
    }

    fn released(&mut self, world: &mut World, life: Life, id: PartitionId) {
        let found = self
            .held
            .iter()
            .find(|(_, held)| held.id == id)
            .map(|(partition, _)| *partition);
        let Some(partition) = found else { return };
        let Some(held) = self.held.remove(&partition) else {
            return;
        };
        let commit = &world.plan.config.commit;
        let tells_all = commit.metadata_chars == 4_096 && world.plan.config.delivery != Delivery::AtMostOnce;
        let owned = world.cluster.is_owner(life, partition, id);
        if tells_all && owned && !held.unclean && !held.unacked {
            world
                .checks
                .released(&world.plan, &world.cluster, partition, &held.done);
        }
        if owned {
            let is_known = !held.unacked && !held.unclean;
            let (plan, cluster) = (&world.plan, &world.cluster);
            world.checks.given_back(plan, cluster, partition, &held.base, is_known);
        }
        world.cluster.release(life, partition, id);
    }

    /// Long after the last fault nothing is left.
    pub(super) fn check_settled(&self, world: &World) -> Result<(), String> {
        let (Some(life), Some(work)) = (self.life, &self.work) else {
            return Ok(());
        };
        let now = world.queue.now();
        for (partition, held) in &self.held {
            let why = work.stall_reason(now, held.id);
            let pauses: Vec<_> = work
                .pauses(held.id)
                .into_iter()
                .flat_map(|pauses| pauses.iter())
                .collect();
            let status = work.partition_status(held.id);
            let at = |what: &str| format!("{} {partition} {what}: {status:?} {why:?} {pauses:?}", life.tag());
            if !pauses.is_empty() {
                return Err(at("is still paused"));
            }
            if held.paused {
                return Err(at("was never resumed"));
            }
            if status.is_some_and(|status| status.records > 0) {
                return Err(at("still has work"));
            }
            if work.held_keys(held.id) > 0 {
                return Err(at("still has keys that are fenced"));
            }
        }
        let status = work.status();
        if (
            status.records,
            status.bytes,
            status.in_handlers,
            status.parked,
            status.keys,
        ) != (0, 0, 0, 0, 0)
        {
            return Err(format!("{} leaks: {status:?}", life.tag()));
        }
        Ok(())
    }
}
