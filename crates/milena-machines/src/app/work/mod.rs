//! The composition that a driver runs.

use super::{
    Accepted, Action, Arrival, Assignment, CommitOffset, CommitResult, ConfigError, Dispatched, HandlerId, Keyed,
    Outcome, PartitionId, PublishResult, RecordId, SourceId, WorkConfig,
};
use crate::TopicPartition;

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

#[derive(Debug)]
pub struct Work<T> {
    config: WorkConfig,
    payloads: Vec<T>,
}

impl<T: Keyed> Work<T> {
    pub fn new(config: WorkConfig, _seed: u64) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config,
            payloads: vec![],
        })
    }

    pub fn handle_assigned(&mut self, _now_ms: i64, _assignment: Assignment) -> PartitionId {
        PartitionId { index: 0, epoch: 0 }
    }

    pub fn accept(&mut self, _now_ms: i64, _partition: PartitionId, arrival: Arrival<T>) -> Accepted {
        self.payloads.push(arrival.payload);
        Accepted::Stale
    }

    pub fn handle_position(&mut self, _now_ms: i64, _partition: PartitionId, _next_offset: i64) {}

    pub fn handle_finished(&mut self, _now_ms: i64, _record: RecordId, _outcome: Outcome) {}

    pub fn handle_published(&mut self, _now_ms: i64, _record: RecordId, _result: PublishResult) {}

    pub fn handle_committed(&mut self, _now_ms: i64, _source: SourceId, _result: CommitResult) {}

    pub fn handle_revoking(&mut self, _now_ms: i64, _partitions: &[PartitionId]) {}

    pub fn handle_lost(&mut self, _now_ms: i64, _partitions: &[PartitionId]) {}

    pub fn handle_shutdown(&mut self, _now_ms: i64) {}

    pub fn handle_timeout(&mut self, _now_ms: i64) {}

    pub fn pause(&mut self, _now_ms: i64, _partition: &TopicPartition) {}

    pub fn resume(&mut self, _now_ms: i64, _partition: &TopicPartition) {}

    pub fn restart_partition(&mut self, _now_ms: i64, _partition: PartitionId) {}

    pub fn begin_barrier(&mut self, _now_ms: i64) {}

    pub fn barrier_offsets(&mut self, _now_ms: i64) -> Vec<CommitOffset> {
        vec![]
    }

    pub fn end_barrier(&mut self, _now_ms: i64, _committed: bool) {}

    pub fn poll_dispatch(&mut self, _now_ms: i64, _max: usize, _out: &mut Vec<Dispatched>) -> Option<HandlerId> {
        let _ = &self.config;
        None
    }

    pub fn poll_action(&mut self) -> Option<Action> {
        None
    }

    pub fn poll_timeout(&self) -> Option<i64> {
        None
    }

    pub fn payload(&self, _record: RecordId) -> Option<&T> {
        None
    }

    pub fn partition(&self, _partition: PartitionId) -> Option<&TopicPartition> {
        None
    }

    pub fn stage(&self) -> Stage {
        Stage::Running
    }
}
