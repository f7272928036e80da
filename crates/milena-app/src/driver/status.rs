//! Status of a running application.

use milena_client::{consumer::TopicPartition, metrics::Metrics};
use milena_machines::app::{BreakerId, TransactionPhase};

use super::{Engine, State, key_holds::group_of};
use crate::{
    metrics::HandlerCounts,
    status::{BreakerStatus, PartitionStatus, Status},
    times::ConsumerTimes,
};

impl Engine {
    pub(crate) fn counts(&self) -> impl Iterator<Item = HandlerCounts> {
        self.metrics.iter().map(|metrics| metrics.snapshot())
    }

    pub(crate) fn consumer_times(&self) -> impl Iterator<Item = ConsumerTimes> {
        self.sources.iter().map(|link| link.times.snapshot())
    }

    /// The metrics of its consumers, each with its group.
    pub(crate) fn consumer_metrics(&self) -> impl Iterator<Item = (String, Metrics)> {
        self.sources.iter().filter_map(|link| {
            let metrics = link.metrics.get()?.metrics();
            Some((link.times.group().to_owned(), metrics))
        })
    }

    /// Adds the status of this engine to that of others.
    pub(crate) fn add_status(&self, all: &mut Status) {
        let now_ms = self.clock.now_ms();
        let state = self.state();
        let status = state.scheduler.status();
        all.records += status.records;
        all.bytes += status.bytes;
        all.in_handlers += status.in_handlers;
        all.publishing += status.publishing;
        all.is_ending_transaction |= is_ending(state.scheduler.transaction_phase());
        all.parked += status.parked;
        all.has_joined &= state.groups.iter().all(|group| {
            let group = group.as_ref();
            group.is_some_and(|group| group.generation >= 0)
        });
        let partitions = state.owned.iter().filter_map(|(partition, owned)| {
            let found = state.scheduler.partition_status(owned.id)?;
            let group = group_of(&self.group, owned.topic.role);
            let pauses = state.scheduler.pauses(owned.id);
            Some(PartitionStatus {
                partition: partition.clone(),
                group,
                committed: found.committed,
                frontier: found.frontier,
                end: found.end,
                records: found.records,
                replay_if_crashed_now: found.replay_if_crashed_now,
                paused: pauses.map(|pauses| pauses.iter().collect()).unwrap_or_default(),
                why: state.scheduler.stall_reason(now_ms, owned.id)?,
                publish_problem: None,
                is_isolating: found.is_isolating,
            })
        });
        all.partitions.extend(partitions);
        all.replay_if_crashed_now = all
            .partitions
            .iter()
            .map(|partition| partition.replay_if_crashed_now)
            .sum();
        all.breakers.extend(self.breaker_status(&state));
        if all.failure.is_none() {
            all.failure = state.failure.as_ref().map(ToString::to_string);
        }
    }

    fn breaker_status(&self, state: &State) -> Vec<BreakerStatus> {
        let numbered = self.breakers.iter().enumerate();
        let statuses = numbered.filter_map(|(index, name)| {
            let breaker = state.scheduler.breaker(BreakerId(u16::try_from(index).ok()?))?;
            Some(BreakerStatus {
                name: name.clone(),
                state: breaker.state(),
                failure_percent: breaker.failure_percent(),
                not_permitted: breaker.not_permitted(),
                opened: breaker.opened(),
            })
        });
        statuses.collect()
    }

    /// Pauses a partition until [`resume`](Self::resume), also if it is assigned again meanwhile.
    pub(crate) fn pause(&self, partition: &TopicPartition) {
        self.act(None, |state, now_ms| state.scheduler.pause(now_ms, partition));
    }

    pub(crate) fn resume(&self, partition: &TopicPartition) {
        self.act(None, |state, now_ms| state.scheduler.resume(now_ms, partition));
    }

    /// Restarts a partition that has stopped; `false` if it is not assigned.
    pub(crate) fn restart(&self, partition: &TopicPartition) -> bool {
        self.act(None, |state, now_ms| {
            let Some(id) = state.owned.get(partition).map(|owned| owned.id) else {
                return false;
            };
            state.scheduler.restart_partition(now_ms, id);
            true
        })
    }
}

/// Whether a transaction is being ended, so that the engine is not idle.
fn is_ending(phase: TransactionPhase) -> bool {
    match phase {
        TransactionPhase::Idle | TransactionPhase::Open | TransactionPhase::Due => false,
        TransactionPhase::Draining
        | TransactionPhase::AtBarrier
        | TransactionPhase::Ending
        | TransactionPhase::MustAbort => true,
    }
}
