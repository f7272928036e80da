//! The scheduler: decides which record is handled when, and what follows.
//!
//! After every input the driver takes [`Scheduler::poll_action`] until there is none, then [`Scheduler::poll_dispatch`]
//! until there is neither, and comes back with [`Scheduler::handle_timeout`] at [`Scheduler::poll_timeout`].
//!
//! The scheduler owns parts that know nothing of each other, and only routes between them: an event of one is a question
//! to the next. Each file here is one kind of event:
//!
//! | file | event |
//! |---|---|
//! | `assign`, `release` | a partition is assigned; revoked, lost, or given back at shutdown |
//! | `arrive`, `runs` | records arrive, one by one or as runs |
//! | `dispatch` | records pass the gates to their handlers |
//! | `finish`, `publish`, `sent` | a handler returns; outputs and failure records are acknowledged, or not |
//! | `commit`, `ahead`, `transaction` | commits at least once, at most once, exactly once |
//! | `crash_guard`, `key_holds`, `retry_topics` | records that need more than a handler |
//! | `pause`, `stall`, `status` | backpressure; partitions that do not move; numbers for operators |

mod ahead;
mod arrive;
mod assign;
mod commit;
mod crash_guard;
mod dispatch;
mod finish;
mod handler;
mod key_holds;
mod partition;
mod pause;
mod publish;
mod release;
mod retry_topics;
mod runs;
mod sent;
mod stall;
mod status;
mod transaction;

use std::collections::VecDeque;

pub use status::{PartitionStatus, SchedulerStatus, Totals};

use super::{
    Action, BreakerId, ConfigError, Delivery, HandlerId, Keyed, PartitionId, RecordId, ReplayBound, SchedulerConfig,
    SourceId,
    crash_guard::CrashGuard,
    gates::{Gates, breaker::Breaker},
    ids::{PartitionIndex, RecordIndex},
    key_holds::KeyHolds,
    progress::commits::Commits,
    queues::{Queues, State},
    transaction::Transaction,
};
use crate::{Random, TopicPartition, timers::Timers};
use handler::Handler;
use partition::{Partition, Partitions};

/// How far a shutdown is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Running,
    /// Handlers finish the records that they have.
    Draining,
    /// The last offsets are committed.
    Committing,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    No,
    Begun,
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// The first record of a retry topic's partition is due.
    Due(PartitionIndex),
    /// The time for a partition's drain, or for its last commit, is over.
    Deadline(PartitionIndex),
    /// A source checks whether to commit.
    Commit(SourceId),
    /// A breaker probes its dependency.
    Breaker(BreakerId),
    /// The rate or the batch of a handler lets more through.
    Handler(HandlerId),
    /// Runs of a partition have waited for earlier records of it.
    Runs(PartitionIndex),
    /// The commits of the held-keys topics are checked.
    KeyHolds,
    /// Partitions that do not move are looked for.
    Stalls,
}

#[derive(Debug)]
pub struct Scheduler<T> {
    config: SchedulerConfig,
    random: Random,
    partitions: Partitions,
    handlers: Vec<Handler>,
    queues: Queues<T>,
    gates: Gates,
    commits: Commits,
    crash_guard: CrashGuard,
    key_holds: KeyHolds,
    transaction: Transaction,
    shutdown: Shutdown,
    timers: Timers<Timer>,
    actions: VecDeque<Action>,
    totals: Totals,
    /// The handler that is served next.
    next_handler: usize,
    /// Records that were just taken from their queues; the allocation is kept.
    taken: Vec<RecordIndex>,
}

impl<T: Keyed> Scheduler<T> {
    /// The seed decides the jitter of waits, and the hash of keys.
    pub fn new(config: SchedulerConfig, seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let mut random = Random::new(seed);
        Ok(Self {
            queues: Queues::new(config.handlers.len(), random.next_u64()),
            random,
            partitions: Partitions::default(),
            handlers: config.handlers.iter().map(Handler::new).collect(),
            gates: Gates::new(&config),
            commits: Commits::new(config.commit.metadata_chars),
            crash_guard: CrashGuard::new(&config),
            key_holds: KeyHolds::new(&config),
            transaction: Transaction::new(),
            shutdown: Shutdown::No,
            timers: Timers::default(),
            actions: VecDeque::new(),
            totals: Totals::default(),
            next_handler: 0,
            taken: vec![],
            config,
        })
    }

    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub fn has_action(&self) -> bool {
        !self.actions.is_empty()
    }

    /// The time of the next [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Option<i64> {
        let parked = self.queues.next_due();
        self.timers.next_deadline().into_iter().chain(parked).min()
    }

    pub fn handle_timeout(&mut self, now_ms: i64) {
        while let Some(record) = self.queues.pop_due(now_ms) {
            self.unparked(now_ms, record);
        }
        while let Some(timer) = self.timers.pop_due(now_ms) {
            match timer {
                Timer::Due(partition) => self.admit(now_ms, partition),
                Timer::Deadline(partition) => self.deadline_passed(now_ms, partition),
                Timer::Commit(source) => self.commit_timeout(now_ms, source),
                Timer::Breaker(breaker) => self.probe_breaker(now_ms, breaker),
                // The wakeup is enough: it lets poll_dispatch look again.
                Timer::Handler(_) => {}
                Timer::Runs(partition) => self.split_waiting_runs(now_ms, partition),
                Timer::KeyHolds => self.check_key_holds(now_ms),
                Timer::Stalls => self.check_stalls(now_ms),
            }
        }
    }

    /// The payload that was given to [`Self::accept`], as long as the record is not done.
    pub fn payload(&self, record: RecordId) -> Option<&T> {
        self.queues.find(record)?.payload.as_ref()
    }

    /// The partition and offset of a record, as long as it is not done. Of a run it is the first offset.
    pub fn position(&self, record: RecordId) -> Option<(PartitionId, i64)> {
        let entry = self.queues.find(record)?;
        Some((self.partitions.at(entry.partition)?.id, entry.offset))
    }

    /// Whether an offset of an assigned partition is done.
    pub fn is_done(&self, partition: PartitionId, offset: i64) -> bool {
        let found = self.partitions.find(partition);
        found.is_some_and(|found| found.progress.is_done(offset))
    }

    /// Whether a record waits for its next attempt.
    pub fn is_parked(&self, record: RecordId) -> bool {
        self.queues
            .find(record)
            .is_some_and(|entry| entry.state == State::Parked)
    }

    pub fn partition(&self, partition: PartitionId) -> Option<&TopicPartition> {
        self.partitions.find(partition).map(|partition| &partition.name)
    }

    /// The lowest unfinished offset of a partition.
    pub fn frontier(&self, partition: PartitionId) -> Option<i64> {
        self.partitions.find(partition).map(|found| found.progress.frontier())
    }

    /// The assigned partitions, with those that are being given back.
    pub fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.partitions.all().map(|partition| partition.id)
    }

    pub fn breaker(&self, breaker: BreakerId) -> Option<&Breaker> {
        self.gates.breaker(breaker)
    }

    pub fn config(&self) -> &SchedulerConfig {
        &self.config
    }

    pub fn stage(&self) -> Stage {
        match self.shutdown {
            Shutdown::No => Stage::Running,
            Shutdown::Closed => Stage::Closed,
            Shutdown::Begun if self.partitions.all().any(Partition::is_draining) => Stage::Draining,
            Shutdown::Begun => Stage::Committing,
        }
    }

    /// Whether no record is admitted that lies further above the frontier than a commit map can tell.
    fn is_strict(&self) -> bool {
        self.config.commit.replay_bound == ReplayBound::Strict || self.config.delivery == Delivery::ExactlyOnce
    }

    fn is_at_most_once(&self) -> bool {
        self.config.delivery == Delivery::AtMostOnce
    }

    fn handler(&self, id: HandlerId) -> Option<&Handler> {
        self.handlers.get(usize::from(id.0))
    }

    fn handler_mut(&mut self, id: HandlerId) -> Option<&mut Handler> {
        self.handlers.get_mut(usize::from(id.0))
    }

    /// The handler of a partition.
    fn handler_of(&self, partition: PartitionIndex) -> Option<&Handler> {
        self.handler(self.partitions.at(partition)?.handler)
    }
}
