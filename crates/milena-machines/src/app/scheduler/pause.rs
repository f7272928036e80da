//! Backpressure: partitions are paused and queues blocked by limits, breakers and users.

use super::{
    super::{
        Action, BreakerId, BreakerState, HandlerId, Keyed, PartitionId, PauseReason, PauseSet, Role,
        gates::{SharedBreakers, gauge::Size, pauses::Change},
        ids::PartitionIndex,
    },
    Scheduler, Timer,
    partition::Partition,
};
use crate::TopicPartition;

impl<T: Keyed> Scheduler<T> {
    /// The user pauses a partition until [`Self::resume`], also if it is revoked and assigned again meanwhile.
    pub fn pause(&mut self, now_ms: i64, partition: &TopicPartition) {
        self.set_user_pause(now_ms, partition, true);
    }

    pub fn resume(&mut self, now_ms: i64, partition: &TopicPartition) {
        self.set_user_pause(now_ms, partition, false);
    }

    /// The reasons why a partition is not fetched.
    pub fn pauses(&self, partition: PartitionId) -> Option<&PauseSet> {
        self.partitions.find(partition).map(|found| &found.pauses)
    }

    /// An operator restarts a partition that has stopped: its record is tried again.
    pub fn restart_partition(&mut self, now_ms: i64, partition: PartitionId) {
        // The partition may have been revoked meanwhile.
        let Some(found) = self.partitions.find_mut(partition) else {
            return;
        };
        found.stopped = None;
        found.progress.set_moved(now_ms);
        if let Some(limit) = &mut found.dlq_limit {
            limit.reset();
        }
        self.set_pause(now_ms, partition.index, PauseReason::Stopped, false);
        self.update_block(partition.index);
        self.isolate_next(now_ms, partition.index);
    }

    /// From now on until [`leave`](Self::leave) no other scheduler acts. Follows changes that others made to breakers.
    pub fn enter(&mut self, now_ms: i64, shared: &SharedBreakers) {
        for (breaker, before) in self.gates.follow(shared) {
            self.follow_breaker(now_ms, breaker, before);
        }
    }

    /// Lets the other schedulers act. If this returns `true` they must: some may go on now, or must stop.
    #[must_use]
    pub fn leave(&mut self, shared: &mut SharedBreakers) -> bool {
        self.gates.store(shared)
    }

    fn set_user_pause(&mut self, now_ms: i64, name: &TopicPartition, is_paused: bool) {
        self.gates.set_user_pause(name, is_paused);
        let found = self.partitions.all().find(|found| found.name == *name);
        if let Some(partition) = found.map(|found| found.id.index) {
            self.set_pause(now_ms, partition, PauseReason::User, is_paused);
        }
    }

    pub(super) fn set_pause(&mut self, now_ms: i64, partition: PartitionIndex, reason: PauseReason, holds: bool) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        let id = found.id;
        match found.pauses.set(now_ms, reason, holds) {
            Change::None => {}
            Change::Pause => self.actions.push_back(Action::Pause(id)),
            Change::Resume => self.actions.push_back(Action::Resume(id)),
        }
    }

    /// Blocks or unblocks the queues of a partition.
    pub(super) fn update_block(&mut self, partition: PartitionIndex) {
        let Some(found) = self.partitions.at(partition) else {
            return;
        };
        // At most once, records that are committed and not handled would be lost.
        let is_given_back = !found.is_active() && !self.is_at_most_once();
        let is_blocked = found.stopped.is_some() || found.unpublished > 0 || found.guard.blocks();
        self.queues.block(partition, is_given_back || is_blocked);
    }

    /// Counts a record that arrived. Records of retry and held-keys topics that are not due count for their partition alone:
    /// they must not keep others waiting.
    pub(super) fn count_in(&mut self, now_ms: i64, partition: PartitionIndex, handler: HandlerId, size: Size) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        found.gauge.add(size);
        if found.role == Role::Main {
            self.gates.count_in(handler, size);
        }
        self.check_limits(now_ms, partition, handler);
    }

    /// Counts a record of a retry topic that is due.
    pub(super) fn count_due(&mut self, now_ms: i64, partition: PartitionIndex, size: Size) {
        let Some(handler) = self.partitions.at(partition).map(|found| found.handler) else {
            return;
        };
        self.gates.count_in(handler, size);
        self.check_limits(now_ms, partition, handler);
    }

    /// Takes a record out of the counts.
    pub(super) fn count_out(&mut self, now_ms: i64, partition: PartitionIndex, was_due: bool, size: Size) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        found.gauge.remove(size);
        let handler = found.handler;
        let is_shared = match found.role {
            Role::Main => true,
            Role::RetryTopic { .. } => was_due,
            Role::HeldKeys => false,
        };
        if is_shared {
            self.gates.count_out(handler, size);
        }
        self.check_limits(now_ms, partition, handler);
    }

    fn check_limits(&mut self, now_ms: i64, partition: PartitionIndex, handler: HandlerId) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        let gauge = &mut found.gauge;
        let Some(changes) = self.gates.check_limits(&self.config.limits, handler, gauge) else {
            return;
        };
        if let Some(is_over) = changes.global {
            self.set_pause_where(now_ms, PauseReason::Global, is_over, |_| true);
        }
        if let Some(is_over) = changes.handler {
            self.set_pause_where(now_ms, PauseReason::Handler, is_over, |id| id == handler);
        }
        if let Some(is_over) = changes.partition {
            self.set_pause(now_ms, partition, PauseReason::Partition, is_over);
        }
    }

    fn set_pause_where(
        &mut self,
        now_ms: i64,
        reason: PauseReason,
        holds: bool,
        is_concerned: impl Fn(HandlerId) -> bool,
    ) {
        let is_concerned = |found: &Partition| is_concerned(found.handler) && found.is_paused_by(reason);
        for partition in self.partitions.indexes() {
            if self.partitions.at(partition).is_some_and(is_concerned) {
                self.set_pause(now_ms, partition, reason, holds);
            }
        }
    }

    pub(super) fn probe_breaker(&mut self, now_ms: i64, breaker: BreakerId) {
        if let Some(before) = self.gates.probe(now_ms, breaker) {
            self.breaker_changed(now_ms, breaker, before);
        }
    }

    /// Reports a breaker that may have changed.
    pub(super) fn breaker_changed(&mut self, now_ms: i64, breaker: BreakerId, before: BreakerState) {
        let state = self.gates.breaker(breaker).map(|breaker| breaker.state());
        if let Some(state) = state.filter(|state| *state != before) {
            self.actions.push_back(Action::BreakerChanged { breaker, state });
        }
        self.follow_breaker(now_ms, breaker, before);
    }

    /// Sets the timer of a breaker and pauses or resumes partitions, as its state says.
    fn follow_breaker(&mut self, now_ms: i64, id: BreakerId, before: BreakerState) {
        let Some(breaker) = self.gates.breaker(id) else { return };
        let state = breaker.state();
        match breaker.poll_timeout() {
            Some(until_ms) => self.timers.set(Timer::Breaker(id), until_ms),
            None => self.timers.cancel(&Timer::Breaker(id)),
        }
        if state == before {
            return;
        }
        for number in 0..self.handlers.len() {
            let handler = HandlerId(number as u16);
            let is_open = self.gates.open_breaker(handler).is_some();
            self.set_pause_where(now_ms, PauseReason::Breaker, is_open, |id| id == handler);
        }
    }
}
