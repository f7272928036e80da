//! A driver that records all actions.

use bytes::Bytes;
use milena_machines::{
    TopicPartition,
    app::{
        Acceptance, Action, Arrival, Assignment, CommitOffset, CommitResult, CommittedOffset, Dispatch, Exhausted,
        HandlerConfig, HandlerId, Outcome, PartitionId, Publish, PublishResult, RecordId, RetryInfo, RetryPolicy, Role,
        Scheduler, SchedulerConfig, SourceId,
    },
};

pub(super) type Key = Option<Bytes>;

pub(super) struct Rig {
    pub(super) work: Scheduler<Key>,
    pub(super) now: i64,
    /// Actions that were not read yet.
    pub(super) actions: Vec<Action>,
}

/// A handler with dead letters and otherwise defaults.
pub(super) fn handler() -> HandlerConfig {
    HandlerConfig {
        retry: RetryPolicy {
            jitter_percent: 0,
            exhausted: Exhausted::DeadLetter,
            ..RetryPolicy::default()
        },
        ..HandlerConfig::default()
    }
}

pub(super) fn config(handler: HandlerConfig) -> SchedulerConfig {
    SchedulerConfig {
        handlers: vec![handler],
        ..SchedulerConfig::default()
    }
}

pub(super) fn topic(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// A rig with one handler that has dead letters and otherwise defaults.
pub(super) fn rig() -> Rig {
    Rig::new(config(handler()))
}

impl Rig {
    pub(super) fn new(config: SchedulerConfig) -> Self {
        Self {
            work: Scheduler::new(config, 1).unwrap(),
            now: 1_000_000,
            actions: vec![],
        }
    }

    pub(super) fn assign(&mut self, partition: i32) -> PartitionId {
        self.assign_at(partition, Role::Main, 0, None)
    }

    pub(super) fn assign_at(
        &mut self,
        partition: i32,
        role: Role,
        position: i64,
        committed: Option<CommittedOffset>,
    ) -> PartitionId {
        let assignment = Assignment {
            partition: topic(partition),
            source: SourceId(0),
            handler: HandlerId(0),
            role,
            position,
            committed,
            leader_epoch: None,
        };
        let id = self.work.handle_assigned(self.now, assignment);
        self.collect();
        id
    }

    pub(super) fn read(&mut self, partition: PartitionId, offset: i64, key: &'static str) -> Acceptance {
        self.read_retry(partition, offset, key, None)
    }

    /// Reads records with these keys, from offset 0 on.
    pub(super) fn read_keys(&mut self, partition: PartitionId, keys: &[&'static str]) {
        for (offset, key) in (0..).zip(keys) {
            self.read(partition, offset, key);
        }
    }

    /// Reads a record, which is the only one to be handled, and handles it.
    pub(super) fn handle(&mut self, partition: PartitionId, offset: i64) {
        self.read(partition, offset, "a");
        let record = self.one().record;
        self.finish(record, Outcome::Done);
    }

    pub(super) fn read_retry(
        &mut self,
        partition: PartitionId,
        offset: i64,
        key: &'static str,
        retry: Option<RetryInfo>,
    ) -> Acceptance {
        let arrival = Arrival {
            offset,
            leader_epoch: Some(3),
            bytes: 100,
            retry,
            payload: Some(Bytes::from_static(key.as_bytes())),
        };
        let accepted = self.work.accept(self.now, partition, arrival);
        self.collect();
        accepted
    }

    pub(super) fn dispatch(&mut self) -> Vec<Dispatch> {
        let (mut all, mut some) = (vec![], vec![]);
        while self.work.poll_dispatch(self.now, 64, &mut some).is_some() {
            all.append(&mut some);
        }
        self.collect();
        all
    }

    /// The offsets that are handed out now.
    pub(super) fn offsets(&mut self) -> Vec<i64> {
        self.dispatch().iter().map(|dispatched| dispatched.offset).collect()
    }

    /// The only record that is handed out now.
    pub(super) fn one(&mut self) -> Dispatch {
        let all = self.dispatch();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0]
    }

    pub(super) fn finish(&mut self, record: RecordId, outcome: Outcome) {
        self.work.handle_finished(self.now, record, outcome);
        self.collect();
    }

    pub(super) fn published(&mut self, record: RecordId, result: PublishResult) {
        self.work.handle_published(self.now, record, result);
        self.collect();
    }

    pub(super) fn committed(&mut self, result: CommitResult) {
        self.work.handle_committed(self.now, SourceId(0), result);
        self.collect();
    }

    /// Advances the time, timer by timer.
    pub(super) fn advance(&mut self, ms: i64) {
        let end = self.now + ms;
        while let Some(at) = self.work.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.work.handle_timeout(self.now);
        }
        self.now = end;
        self.collect();
    }

    fn collect(&mut self) {
        self.actions.extend(std::iter::from_fn(|| self.work.poll_action()));
    }

    /// Takes the actions so far.
    pub(super) fn said(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The only commit.
    pub(super) fn commit(&mut self) -> CommitOffset {
        let mut commits: Vec<CommitOffset> = vec![];
        for action in self.said() {
            if let Action::Commit { offsets, .. } = action {
                commits.extend(offsets);
            }
        }
        assert_eq!(commits.len(), 1, "{commits:?}");
        commits.remove(0)
    }

    /// The only publish.
    pub(super) fn publish(&mut self) -> Publish {
        let said = self.said();
        let mut publishes = said.iter().filter_map(|action| match action {
            Action::Publish { what, .. } => Some(*what),
            _ => None,
        });
        let publish = publishes.next().unwrap();
        assert!(publishes.next().is_none());
        publish
    }
}
