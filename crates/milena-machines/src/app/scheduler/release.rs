//! Partitions go: given back when all is done for them, or lost at once.

use super::{
    super::{Action, Delivery, Keyed, PartitionId, RecordId, SourceId, pauses::PauseReason, queues::State},
    Scheduler, Timer,
    finish::Call,
    partition::Phase,
};
use crate::app::ids::{PartitionIndex, RecordIndex};

impl<T: Keyed> Scheduler<T> {
    /// The group wants partitions back. Their handlers may end what they have, up to a bound; then the last commit; then
    /// [`Action::Released`]. What no handler has is left to the next owner.
    pub fn handle_revoking(&mut self, now_ms: i64, partitions: &[PartitionId]) {
        for id in partitions {
            if self.find(*id).is_some_and(|partition| partition.is_active()) {
                self.give_back(now_ms, id.index, PauseReason::Revoking);
            }
        }
    }

    /// Partitions are somebody else's already. Nothing can be committed, and what runs is cancelled.
    pub fn handle_lost(&mut self, now_ms: i64, partitions: &[PartitionId]) {
        for id in partitions {
            if self.find(*id).is_some() {
                self.remove(now_ms, id.index);
            }
        }
        self.check_closed();
        self.check_barrier();
    }

    /// Gives everything back, and then nothing is left to do: [`Action::Closed`].
    pub fn handle_shutdown(&mut self, now_ms: i64) {
        if self.shutting_down {
            return;
        }
        self.shutting_down = true;
        let active: Vec<PartitionIndex> = self
            .all()
            .filter(|partition| partition.is_active())
            .map(|partition| partition.id.index)
            .collect();
        for index in active {
            self.give_back(now_ms, index, PauseReason::Shutdown);
        }
        self.check_closed();
    }

    fn give_back(&mut self, now_ms: i64, index: PartitionIndex, reason: PauseReason) {
        let Some(partition) = self.at_mut(index) else { return };
        partition.phase = Phase::Draining;
        let source = partition.source;
        self.set_pause(now_ms, index, reason, true);
        self.update_block(index);
        self.timers.cancel(&Timer::Due(index));
        self.timers
            .set(Timer::Deadline(index), now_ms.saturating_add(self.config.drain_ms));
        let under_way = self.find_cleared_soon(index, source);
        let records: Vec<RecordIndex> = self.queues.of_partition(index).collect();
        for record in records {
            if self.is_left_behind(record, under_way) {
                self.leave_behind(now_ms, record);
            }
        }
        if let Some(partition) = self.partitions.get_mut(index).and_then(Option::as_mut) {
            let queues = &self.queues;
            partition
                .staged
                .retain(|index| queues.entry(*index).is_some_and(|entry| entry.state == State::Staged));
        }
        self.check_drained(now_ms, index);
    }

    /// At most once: a commit may be under way for records that no handler has seen. If it succeeds they are ours.
    fn find_cleared_soon(&self, index: PartitionIndex, source: SourceId) -> bool {
        self.at(index)
            .is_some_and(|partition| self.is_under_way(partition.id, source))
    }

    /// Whether a record of a partition that is given back is left to the next owner.
    fn is_left_behind(&self, index: RecordIndex, commit_under_way: bool) -> bool {
        let Some(entry) = self.queues.entry(index) else {
            return false;
        };
        match (self.config.delivery, entry.state) {
            (Delivery::AtMostOnce, State::Staged) => !commit_under_way,
            // It is committed: nobody else will ever read it.
            (Delivery::AtMostOnce, _) | (_, State::InHandler | State::Publishing) => false,
            _ => true,
        }
    }

    fn leave_behind(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(entry) = self.queues.entry(index) else { return };
        let (partition, state) = (entry.partition, entry.state);
        if let Some(found) = self.at_mut(partition) {
            found.parked = found.parked.saturating_sub(u32::from(state == State::Parked));
            found.unpublished = found.unpublished.saturating_sub(u32::from(state == State::Unpublished));
        }
        self.tell_cancelled(index);
        self.forget(now_ms, index);
    }

    /// Tells that nobody waits for a record any longer, if somebody could still do something about it, or it is lost.
    pub(super) fn tell_cancelled(&mut self, index: RecordIndex) {
        let Some(entry) = self.queues.entry(index) else { return };
        let is_told = match entry.state {
            State::InHandler | State::Publishing | State::Unpublished => true,
            State::Waiting | State::Parked => self.config.delivery == Delivery::AtMostOnce,
            State::Staged | State::Free => false,
        };
        if is_told {
            let record = RecordId {
                index,
                serial: entry.serial,
            };
            self.totals.cancelled += u64::from(entry.count);
            self.actions.push_back(Action::Cancel(record));
        }
    }

    /// Goes on with giving a partition back when nothing of it is left.
    pub(super) fn check_drained(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(partition) = self.at_mut(index) else { return };
        if partition.phase != Phase::Draining || partition.gauge.records > 0 {
            return;
        }
        partition.phase = Phase::Committing;
        let (frontier, pending) = (partition.tracker.frontier(), partition.tracker.pending());
        partition.guard.withdraw(frontier, pending);
        let (id, source, dirty) = (partition.id, partition.source, partition.is_dirty());
        self.timers.set(
            Timer::Deadline(index),
            now_ms.saturating_add(self.config.final_commit_ms),
        );
        // What is under way may tell of a start that is over.
        let is_late = dirty || self.is_under_way(id, source);
        if is_late && self.config.delivery != Delivery::AtMostOnce {
            self.commit_now(now_ms, source);
        }
        self.check_released(now_ms, index);
    }

    /// Releases a partition when the group knows all of it.
    pub(super) fn check_released(&mut self, now_ms: i64, index: PartitionIndex) {
        let before = self.config.delivery == Delivery::AtMostOnce;
        let Some(partition) = self.at(index) else { return };
        let known = before || !partition.is_dirty();
        if partition.phase == Phase::Committing && known && !self.is_under_way(partition.id, partition.source) {
            self.release(now_ms, index);
        } else if partition.phase == Phase::Draining {
            self.check_drained_after_commit(now_ms, index);
        }
    }

    /// At most once: what a commit did not clear is left to the next owner.
    fn check_drained_after_commit(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(partition) = self.at(index) else { return };
        if self.config.delivery != Delivery::AtMostOnce || self.is_under_way(partition.id, partition.source) {
            return;
        }
        let staged: Vec<RecordIndex> = partition.staged.iter().copied().collect();
        for record in staged {
            self.forget(now_ms, record);
        }
        if let Some(partition) = self.at_mut(index) {
            partition.staged.clear();
        }
        self.check_drained(now_ms, index);
    }

    /// A commit has failed. If none can be made any more, who waited for it waits no longer.
    pub(super) fn not_committed(&mut self, now_ms: i64, source: SourceId, lost: bool) {
        for index in self.partitions.indexes() {
            let Some(partition) = self.at(index).filter(|partition| partition.source == source) else {
                continue;
            };
            match partition.phase {
                Phase::Draining => self.check_drained_after_commit(now_ms, index),
                Phase::Committing if lost => self.release(now_ms, index),
                Phase::Active | Phase::Committing => {}
            }
        }
    }

    pub(super) fn deadline_passed(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(phase) = self.at(index).map(|partition| partition.phase) else {
            return;
        };
        match phase {
            Phase::Active => {}
            Phase::Draining => {
                self.cancel_all(now_ms, index);
                if let Some(partition) = self.at_mut(index) {
                    partition.staged.clear();
                }
                self.check_drained(now_ms, index);
                self.check_barrier();
            }
            Phase::Committing => self.release(now_ms, index),
        }
    }

    fn release(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(id) = self.at(index).map(|partition| partition.id) else {
            return;
        };
        self.remove(now_ms, index);
        self.actions.push_back(Action::Released(id));
        self.check_closed();
    }

    /// Forgets a partition and all its records.
    fn remove(&mut self, now_ms: i64, index: PartitionIndex) {
        self.cancel_all(now_ms, index);
        self.queues.remove_partition(index);
        for timer in [Timer::Due(index), Timer::Deadline(index), Timer::Runs(index)] {
            self.timers.cancel(&timer);
        }
        let Some(partition) = self.partitions.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.partitions.give_back(index);
        self.leave_turn(now_ms, index);
        self.spoiled |= partition.commit.touched && self.config.delivery == Delivery::ExactlyOnce;
        let percent = self.config.partition_percent;
        if let Some(handler) = self.handler_mut(partition.handler) {
            handler.change_partitions(false, percent);
        }
    }

    pub(super) fn cancel(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(entry) = self.queues.entry(index) else { return };
        let (state, partition) = (entry.state, entry.partition);
        let call = Call::of(entry);
        if state == State::InHandler
            && let Some(handler) = self.at(partition).map(|partition| partition.handler)
        {
            self.call_ended(now_ms, handler, call, None);
        }
        self.tell_cancelled(index);
        self.forget(now_ms, index);
    }

    pub(super) fn check_closed(&mut self) {
        if self.shutting_down && !self.closed && self.all().next().is_none() {
            self.closed = true;
            self.actions.push_back(Action::Closed);
        }
    }
}
