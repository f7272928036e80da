//! What holds partitions back: bounds, breakers, users.

use super::{
    super::{
        Action, BreakerId, BreakerState, HandlerId, Keyed, PartitionId, PauseReason, PauseSet, Role,
        pauses::Change,
        queues::{Gauge, Size},
    },
    Scheduler, Timer,
    partition::{Partition, Phase},
};
use crate::app::ids::PartitionIndex;
use crate::{TopicPartition, app::Delivery};

impl<T: Keyed> Scheduler<T> {
    /// The user wants nothing more of a partition, until [`Self::resume`]; also if it is taken away and comes back.
    pub fn pause(&mut self, now_ms: i64, partition: &TopicPartition) {
        self.user_paused.insert(partition.clone());
        self.set_user_pause(now_ms, partition, true);
    }

    pub fn resume(&mut self, now_ms: i64, partition: &TopicPartition) {
        self.user_paused.remove(partition);
        self.set_user_pause(now_ms, partition, false);
    }

    /// Why it is not fetched.
    pub fn pauses(&self, partition: PartitionId) -> Option<&PauseSet> {
        self.find(partition).map(|partition| &partition.pauses)
    }

    /// Somebody has looked at a partition that stood still: its record is tried again.
    pub fn restart_partition(&mut self, now_ms: i64, partition: PartitionId) {
        let Some(found) = self.at_mut(partition.index).filter(|found| found.id == partition) else {
            return;
        };
        found.stopped = None;
        found.progress.moved_ms = now_ms;
        if let Some(dlq_limit) = &mut found.dlq_limit {
            dlq_limit.reset();
        }
        self.set_pause(now_ms, partition.index, PauseReason::Stopped, false);
        self.update_block(partition.index);
        self.step(now_ms, partition.index);
    }

    fn set_user_pause(&mut self, now_ms: i64, name: &TopicPartition, holds: bool) {
        let found = self
            .all()
            .find(|partition| partition.name == *name)
            .map(|found| found.id.index);
        if let Some(index) = found {
            self.set_pause(now_ms, index, PauseReason::User, holds);
        }
    }

    pub(super) fn set_pause(&mut self, now_ms: i64, index: PartitionIndex, reason: PauseReason, holds: bool) {
        let Some(partition) = self.at_mut(index) else { return };
        let id = partition.id;
        match partition.pauses.set(now_ms, reason, holds) {
            Change::None => {}
            Change::Pause => self.actions.push_back(Action::Pause(id)),
            Change::Resume => self.actions.push_back(Action::Resume(id)),
        }
    }

    /// Whether anything of a partition may be handed out.
    pub(super) fn update_block(&mut self, index: PartitionIndex) {
        let Some(partition) = self.at(index) else { return };
        // What is committed before it is handled is lost if it is not handled.
        let gives_back = partition.phase != Phase::Active && self.config.delivery != Delivery::AtMostOnce;
        let is_held = partition.stopped.is_some() || partition.unpublished > 0 || partition.guard.blocks();
        self.queues.block(index, gives_back || is_held);
    }

    /// A record is kept from now on. What is not due yet or held counts for its partition alone: it must not keep others
    /// waiting.
    pub(super) fn count_in(&mut self, now_ms: i64, index: PartitionIndex, handler: HandlerId, size: Size) {
        let Some(partition) = self.at_mut(index) else { return };
        partition.gauge.add(size);
        if matches!(partition.role, Role::Main) {
            self.count_shared(handler, size, true);
        }
        self.check_bounds(now_ms, index, handler);
    }

    /// A record of a retry topic is due.
    pub(super) fn count_due(&mut self, now_ms: i64, index: PartitionIndex, size: Size) {
        let Some(handler) = self.at(index).map(|partition| partition.handler) else {
            return;
        };
        self.count_shared(handler, size, true);
        self.check_bounds(now_ms, index, handler);
    }

    /// A record is kept no longer.
    pub(super) fn count_out(&mut self, now_ms: i64, index: PartitionIndex, was_due: bool, size: Size) {
        let Some(partition) = self.at_mut(index) else { return };
        partition.gauge.remove(size);
        let handler = partition.handler;
        let is_shared = match partition.role {
            Role::Main => true,
            Role::RetryTopic { .. } => was_due,
            Role::HeldKeys => false,
        };
        if is_shared {
            self.count_shared(handler, size, false);
        }
        self.check_bounds(now_ms, index, handler);
    }

    fn count_shared(&mut self, handler: HandlerId, size: Size, comes: bool) {
        let change = if comes { Gauge::add } else { Gauge::remove };
        change(&mut self.global, size);
        if let Some(handler) = self.handler_mut(handler) {
            change(&mut handler.gauge, size);
        }
    }

    fn check_bounds(&mut self, now_ms: i64, index: PartitionIndex, handler: HandlerId) {
        if let Some(over) = self.global.check(&self.config.limits) {
            self.set_pause_where(now_ms, PauseReason::Global, over, |_| true);
        }
        let Some(found) = self.handlers.get_mut(usize::from(handler.0)) else {
            return;
        };
        let partition_limits = found.partition_limits;
        if let Some(over) = found.gauge.check(&found.config.limits) {
            self.set_pause_where(now_ms, PauseReason::Handler, over, |id| id == handler);
        }
        let partition = self.at_mut(index);
        if let Some(over) = partition.and_then(|partition| partition.gauge.check(&partition_limits)) {
            self.set_pause(now_ms, index, PauseReason::Partition, over);
        }
    }

    fn set_pause_where(
        &mut self,
        now_ms: i64,
        reason: PauseReason,
        holds: bool,
        is_concerned: impl Fn(HandlerId) -> bool,
    ) {
        for index in self.partitions.indexes() {
            let is_concerned = |partition: &Partition| is_concerned(partition.handler) && partition.is_held_by(reason);
            if self.at(index).is_some_and(is_concerned) {
                self.set_pause(now_ms, index, reason, holds);
            }
        }
    }

    /// A breaker of the handler that is open, so that records wait.
    pub(super) fn open_breaker(&self, handler: HandlerId) -> Option<BreakerId> {
        let breakers = &self.handler(handler)?.config.breakers;
        let is_open = |id: &&BreakerId| {
            self.breaker(**id)
                .is_some_and(|it| it.state() == BreakerState::Open && !it.turns_away())
        };
        breakers.iter().find(is_open).copied()
    }

    pub(super) fn try_breaker(&mut self, now_ms: i64, id: BreakerId) {
        let Some(breaker) = self.breakers.get_mut(usize::from(id.0)) else {
            return;
        };
        let before = breaker.state();
        breaker.handle_timeout(now_ms);
        self.breaker_changed(now_ms, id, before);
    }

    /// A breaker may have changed.
    pub(super) fn breaker_changed(&mut self, now_ms: i64, id: BreakerId, before: BreakerState) {
        let Some(state) = self.breaker(id).map(|breaker| breaker.state()) else {
            return;
        };
        if state != before {
            self.actions.push_back(Action::BreakerChanged { breaker: id, state });
        }
        self.follow_breaker(now_ms, id, before);
    }

    /// Does what follows from how a breaker stands.
    pub(super) fn follow_breaker(&mut self, now_ms: i64, id: BreakerId, before: BreakerState) {
        let Some(breaker) = self.breaker(id) else { return };
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
            let open = self.open_breaker(handler).is_some();
            self.set_pause_where(now_ms, PauseReason::Breaker, open, |id| id == handler);
        }
    }
}
