//! The machine that an application's driver runs.
//!
//! After every call the driver takes [`Scheduler::poll_action`] until there is none, then [`Scheduler::poll_dispatch`] until there
//! is neither, and comes back with [`Scheduler::handle_timeout`] when [`Scheduler::poll_timeout`] says.

mod ahead;
mod arrive;
mod assign;
mod back;
mod barrier;
mod commit;
mod crash_guard;
mod dispatch;
mod finish;
mod handler;
mod key_holds;
mod partition;
mod pause;
mod release;
mod runs;
mod sent;
mod shared;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub use partition::MapRestore;
pub use shared::SharedBreakers;
pub use watch::{PartitionStatus, SchedulerStatus, Totals};

use super::{
    Action, BreakerId, ConfigError, Delivery, HandlerId, Keyed, PartitionId, RecordId, ReplayBound, RetryOrdering,
    SchedulerConfig, SourceId, WhenFull, WhenOpen,
    breaker::Breaker,
    bulkhead::Bulkhead,
    commit_map::Room,
    key_holds::HeldKeys,
    queues::{Gauge, Queues, Slab, State},
};
use crate::app::ids::{PartitionIndex, RecordIndex};
use crate::{Random, TopicPartition, timers::Timers};
use barrier::Barrier;
use commit::Source;
use handler::Handler;
use partition::Partition;

/// How far a shutdown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Running,
    /// Handlers end what they have.
    Draining,
    /// The last offsets are committed.
    Committing,
    Closed,
}

/// What happens later by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The first record of a retry topic's partition is due.
    Due(PartitionIndex),
    /// A partition has waited long enough for its handlers, or for its last commit.
    Deadline(PartitionIndex),
    /// A source looks whether to commit.
    Commit(SourceId),
    /// A breaker is tried again.
    Breaker(BreakerId),
    /// A handler's rate or the patience of its batch allows more.
    Handler(HandlerId),
    /// Runs of a partition have waited for others of it.
    Runs(PartitionIndex),
    /// It is asked which keys are free.
    CheckKeyHolds,
    /// Somebody looks for what does not move.
    Watch,
}

#[derive(Debug)]
pub struct Scheduler<T> {
    config: SchedulerConfig,
    random: Random,
    queues: Queues<T>,
    partitions: Slab<PartitionIndex, Option<Partition>>,
    last_epoch: u32,
    handlers: Vec<Handler>,
    breakers: Vec<Breaker>,
    bulkheads: Vec<Bulkhead>,
    sources: Vec<Source>,
    global: Gauge,
    /// The user's wishes, also for partitions that are not ours.
    user_paused: BTreeSet<TopicPartition>,
    /// The keys of main partitions that have records in the held topic.
    fences: BTreeMap<TopicPartition, HeldKeys>,
    /// Whether any handler needs them.
    is_fencing: bool,
    /// Whether any handler's records go back to their topics.
    is_returning: bool,
    /// Whether an open breaker or a full bulkhead turns records away instead of letting them wait.
    turns_away: bool,
    timers: Timers<Timer>,
    actions: VecDeque<Action>,
    /// How large the map of a commit may be.
    room: Room,
    shutting_down: bool,
    closed: bool,
    barrier: Barrier,
    /// A partition is gone of which the transaction has records.
    spoiled: bool,
    last_call: u64,
    /// At most once: the partition whose turn it is to be committed.
    commit_turn: usize,
    /// The handler whose turn it is.
    turn: usize,
    /// The partition whose record is handed out alone, of those that hand out one at a time.
    turn_of: Option<PartitionIndex>,
    /// Whether any partition has a record that is not handed out because of what it did.
    condemns: bool,
    totals: Totals,
    taken: Vec<RecordIndex>,
}

impl<T: Keyed> Scheduler<T> {
    /// The seed decides how waits are spread, and how keys are hashed.
    pub fn new(config: SchedulerConfig, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let mut random = Random::new(seed);
        Ok(Self {
            queues: Queues::new(config.handlers.len(), random.next_u64()),
            random,
            partitions: Slab::default(),
            last_epoch: 0,
            handlers: config.handlers.iter().map(Handler::new).collect(),
            breakers: config.breakers.iter().copied().map(Breaker::new).collect(),
            bulkheads: config.bulkheads.iter().copied().map(Bulkhead::new).collect(),
            sources: vec![],
            global: Gauge::default(),
            user_paused: BTreeSet::new(),
            fences: BTreeMap::new(),
            is_fencing: config
                .handlers
                .iter()
                .any(|handler| handler.retry.ordering == RetryOrdering::HoldKey),
            is_returning: config
                .handlers
                .iter()
                .any(|handler| handler.retry.ordering == RetryOrdering::Return),
            turns_away: config
                .breakers
                .iter()
                .any(|breaker| breaker.when_open == WhenOpen::DeadLetter)
                || config
                    .handlers
                    .iter()
                    .any(|handler| handler.when_full != WhenFull::Wait),
            timers: Timers::default(),
            actions: VecDeque::new(),
            room: Room {
                chars: config.commit.metadata_chars,
                wide: true,
            },
            shutting_down: false,
            closed: false,
            barrier: Barrier::Open,
            spoiled: false,
            last_call: 0,
            commit_turn: 0,
            turn: 0,
            turn_of: None,
            condemns: false,
            totals: Totals::default(),
            taken: vec![],
            config,
        })
    }

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Whether there is something to do.
    pub fn has_action(&self) -> bool {
        !self.actions.is_empty()
    }

    /// When to come back.
    pub fn poll_timeout(&self) -> Option<i64> {
        let parked = self.queues.next_due();
        self.timers.next_deadline().into_iter().chain(parked).min()
    }

    pub fn handle_timeout(&mut self, now_ms: i64) {
        while let Some(index) = self.queues.pop_due(now_ms) {
            self.unparked(now_ms, index);
        }
        while let Some(timer) = self.timers.pop_due(now_ms) {
            match timer {
                Timer::Due(partition) => self.admit(now_ms, partition),
                Timer::Deadline(partition) => self.deadline_passed(now_ms, partition),
                Timer::Commit(source) => self.commit_if_due(now_ms, source),
                Timer::Breaker(breaker) => self.try_breaker(now_ms, breaker),
                // That it is time is all there is to it.
                Timer::Handler(_) => {}
                Timer::Runs(partition) => self.break_waiting(now_ms, partition),
                Timer::CheckKeyHolds => self.ask_held(now_ms),
                Timer::Watch => self.watch(now_ms),
            }
        }
    }

    /// What was given to [`Self::accept`], as long as the record is not done.
    pub fn payload(&self, record: RecordId) -> Option<&T> {
        self.queues.find(record)?.payload.as_ref()
    }

    /// Where a record is from, as long as it is not done. Of a run it is the first one.
    pub fn place(&self, record: RecordId) -> Option<(PartitionId, i64)> {
        let entry = self.queues.find(record)?;
        Some((self.at(entry.partition)?.id, entry.offset))
    }

    /// Whether an offset of an assigned partition is done.
    pub fn is_done(&self, partition: PartitionId, offset: i64) -> bool {
        self.find(partition)
            .is_some_and(|partition| partition.tracker.is_done(offset))
    }

    /// Whether it waits to be tried again.
    pub fn is_parked(&self, record: RecordId) -> bool {
        self.queues
            .find(record)
            .is_some_and(|entry| entry.state == State::Parked)
    }

    pub fn partition(&self, partition: PartitionId) -> Option<&TopicPartition> {
        self.find(partition).map(|partition| &partition.name)
    }

    /// The partitions that are ours, those that are being given back counted.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.all().map(|partition| partition.id)
    }

    pub fn breaker(&self, breaker: BreakerId) -> Option<&Breaker> {
        self.breakers.get(usize::from(breaker.0))
    }

    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    /// How far a shutdown is.
    pub fn stage(&self) -> Stage {
        if self.closed {
            Stage::Closed
        } else if !self.shutting_down {
            Stage::Running
        } else if self.all().any(Partition::is_draining) {
            Stage::Draining
        } else {
            Stage::Committing
        }
    }

    /// Whether records must not lie further above the frontier than a commit can tell.
    fn is_strict(&self) -> bool {
        self.config.commit.replay_bound == ReplayBound::Strict || self.config.delivery == Delivery::ExactlyOnce
    }

    fn find(&self, id: PartitionId) -> Option<&Partition> {
        self.at(id.index).filter(|partition| partition.id == id)
    }

    fn at(&self, index: PartitionIndex) -> Option<&Partition> {
        self.partitions.get(index)?.as_ref()
    }

    fn at_mut(&mut self, index: PartitionIndex) -> Option<&mut Partition> {
        self.partitions.get_mut(index)?.as_mut()
    }

    fn all(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.indexes().filter_map(|index| self.at(index))
    }

    fn handler(&self, id: HandlerId) -> Option<&Handler> {
        self.handlers.get(usize::from(id.0))
    }

    fn handler_mut(&mut self, id: HandlerId) -> Option<&mut Handler> {
        self.handlers.get_mut(usize::from(id.0))
    }
}
