//! Partitions are given back after a drain and a last commit, or lost at once.

use super::{
    super::{
        Action, Delivery, Keyed, PartitionId, RecordId, SourceId,
        gates::{Call, pauses::PauseReason},
        ids::{PartitionIndex, RecordIndex},
        queues::State,
    },
    Scheduler, Shutdown, Timer,
    partition::Phase,
};

impl<T: Keyed> Scheduler<T> {
    /// The group revokes partitions. Their handlers may finish the records that they have, up to a bound; then comes the last
    /// commit; then [`Action::Released`]. Other records are left to the next owner.
    pub fn handle_revoking(&mut self, now_ms: i64, partitions: &[PartitionId]) {
        for id in partitions {
            let found = self.partitions.find(*id);
            if found.is_some_and(|found| found.is_active()) {
                self.give_back(now_ms, id.index, PauseReason::Revoking);
            }
        }
    }

    /// Partitions have another owner already. Nothing can be committed, and calls in flight are cancelled.
    pub fn handle_lost(&mut self, now_ms: i64, partitions: &[PartitionId]) {
        for id in partitions {
            if self.partitions.find(*id).is_some() {
                self.remove(now_ms, id.index);
            }
        }
        self.check_closed();
        self.check_barrier();
    }

    /// Gives all partitions back. [`Action::Closed`] follows.
    pub fn handle_shutdown(&mut self, now_ms: i64) {
        if self.shutdown != Shutdown::No {
            return;
        }
        self.shutdown = Shutdown::Begun;
        let active = self.partitions.all().filter(|found| found.is_active());
        let active: Vec<PartitionIndex> = active.map(|found| found.id.index).collect();
        for partition in active {
            self.give_back(now_ms, partition, PauseReason::Shutdown);
        }
        self.check_closed();
    }

    fn give_back(&mut self, now_ms: i64, partition: PartitionIndex, reason: PauseReason) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        found.phase = Phase::Draining;
        let (id, source) = (found.id, found.source);
        self.set_pause(now_ms, partition, reason, true);
        self.update_block(partition);
        self.timers.cancel(&Timer::Due(partition));
        self.timers
            .set(Timer::Deadline(partition), now_ms.saturating_add(self.config.drain_ms));
        // At most once: a commit may be in flight for records that no handler has seen. If it succeeds they are ours.
        let is_in_flight = self.commits.is_in_flight(id, source);
        let records: Vec<RecordIndex> = self.queues.of_partition(partition).collect();
        for record in records {
            if self.is_left_behind(record, is_in_flight) {
                self.leave_behind(now_ms, record);
            }
        }
        let queues = &self.queues;
        let is_staged = |record: &RecordIndex| queues.entry(*record).is_some_and(|entry| entry.state == State::Staged);
        if let Some(found) = self.partitions.at_mut(partition) {
            found.staged.retain(is_staged);
        }
        self.check_drained(now_ms, partition);
    }

    /// Whether a record of a partition that is given back is left to the next owner.
    fn is_left_behind(&self, record: RecordIndex, is_commit_in_flight: bool) -> bool {
        let Some(entry) = self.queues.entry(record) else {
            return false;
        };
        match (self.config.delivery, entry.state) {
            (Delivery::AtMostOnce, State::Staged) => !is_commit_in_flight,
            // It is committed: no other owner will ever read it.
            (Delivery::AtMostOnce, _) | (_, State::InHandler | State::Publishing) => false,
            _ => true,
        }
    }

    fn leave_behind(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(entry) = self.queues.entry(record) else { return };
        let (partition, state) = (entry.partition, entry.state);
        if let Some(found) = self.partitions.at_mut(partition) {
            found.parked = found.parked.saturating_sub(u32::from(state == State::Parked));
            found.unpublished = found.unpublished.saturating_sub(u32::from(state == State::Unpublished));
        }
        self.tell_cancelled(record);
        self.forget(now_ms, record);
    }

    /// Reports a record as cancelled, if the driver works on it, or if it is lost.
    pub(super) fn tell_cancelled(&mut self, record: RecordIndex) {
        let Some(entry) = self.queues.entry(record) else { return };
        let is_told = match entry.state {
            State::InHandler | State::Publishing | State::Unpublished => true,
            State::Waiting | State::Parked => self.is_at_most_once(),
            State::Staged | State::Free => false,
        };
        if is_told {
            let id = RecordId {
                index: record,
                serial: entry.serial,
            };
            self.totals.cancelled += u64::from(entry.count);
            self.actions.push_back(Action::Cancel(id));
        }
    }

    /// Begins the last commit of a draining partition that has no records left.
    pub(super) fn check_drained(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        if found.phase != Phase::Draining || found.gauge.records > 0 {
            return;
        }
        found.phase = Phase::Committing;
        found.guard.withdraw(found.reached());
        let (id, source, is_dirty) = (found.id, found.source, found.is_dirty());
        self.timers.set(
            Timer::Deadline(partition),
            now_ms.saturating_add(self.config.final_commit_ms),
        );
        // A commit in flight may announce a start that is over.
        let needs_commit = is_dirty || self.commits.is_in_flight(id, source);
        if needs_commit && !self.is_at_most_once() {
            self.commit_now(now_ms, source);
        }
        self.check_released(now_ms, partition);
    }

    /// Releases a partition when the group knows all of it.
    pub(super) fn check_released(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at(partition) else {
            return;
        };
        let is_known = self.is_at_most_once() || !found.is_dirty();
        if found.phase == Phase::Committing && is_known && !self.commits.is_in_flight(found.id, found.source) {
            self.release(now_ms, partition);
        } else if found.phase == Phase::Draining {
            self.drop_uncommitted(now_ms, partition);
        }
    }

    /// At most once: leaves records that no commit has cleared to the next owner.
    fn drop_uncommitted(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        if self.config.delivery != Delivery::AtMostOnce || self.commits.is_in_flight(found.id, found.source) {
            return;
        }
        for record in std::mem::take(&mut found.staged) {
            self.forget(now_ms, record);
        }
        self.check_drained(now_ms, partition);
    }

    /// Goes on with partitions that are given back after a failed commit. `is_lost` is whether none can succeed any more.
    pub(super) fn drain_without_commit(&mut self, now_ms: i64, source: SourceId, is_lost: bool) {
        for partition in self.partitions.indexes() {
            let found = self.partitions.at(partition);
            let Some(found) = found.filter(|found| found.source == source) else {
                continue;
            };
            match found.phase {
                Phase::Draining => self.drop_uncommitted(now_ms, partition),
                Phase::Committing if is_lost => self.release(now_ms, partition),
                Phase::Active | Phase::Committing => {}
            }
        }
    }

    pub(super) fn deadline_passed(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(phase) = self.partitions.at(partition).map(|found| found.phase) else {
            return;
        };
        match phase {
            Phase::Active => {}
            Phase::Draining => {
                self.cancel_all(now_ms, partition);
                if let Some(found) = self.partitions.at_mut(partition) {
                    found.staged.clear();
                }
                self.check_drained(now_ms, partition);
                self.check_barrier();
            }
            Phase::Committing => self.release(now_ms, partition),
        }
    }

    fn release(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(id) = self.partitions.at(partition).map(|found| found.id) else {
            return;
        };
        self.remove(now_ms, partition);
        self.actions.push_back(Action::Released(id));
        self.check_closed();
    }

    /// Removes a partition and all its records.
    fn remove(&mut self, now_ms: i64, partition: PartitionIndex) {
        self.cancel_all(now_ms, partition);
        self.queues.remove_partition(partition);
        for timer in [
            Timer::Due(partition),
            Timer::Deadline(partition),
            Timer::Runs(partition),
        ] {
            self.timers.cancel(&timer);
        }
        let Some(removed) = self.partitions.remove(partition) else {
            return;
        };
        self.leave_turn(now_ms, partition);
        if removed.in_transaction && self.config.delivery == Delivery::ExactlyOnce {
            self.transaction.spoil();
        }
        self.gates
            .remove_partition(removed.handler, self.config.partition_percent);
    }

    /// Cancels all records of a partition. At most once, those that were committed and not handled are lost.
    fn cancel_all(&mut self, now_ms: i64, partition: PartitionIndex) {
        let records: Vec<RecordIndex> = self.queues.of_partition(partition).collect();
        let Some(found) = self.partitions.at(partition) else {
            return;
        };
        let (name, cleared) = (found.name.clone(), found.progress.cleared());
        let (mut lost, mut first) = (0, i64::MAX);
        for record in records {
            if let Some(entry) = self.queues.entry(record)
                && self.is_at_most_once()
                && entry.offset < cleared
            {
                lost += u64::from(entry.count);
                first = first.min(entry.offset);
            }
            self.cancel(now_ms, record);
        }
        if lost > 0 {
            self.totals.lost += lost;
            self.actions.push_back(Action::Lost {
                partition: name,
                offset: first,
                records: lost,
            });
        }
    }

    fn cancel(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(entry) = self.queues.entry(record) else { return };
        let (state, partition) = (entry.state, entry.partition);
        let call = Call::of(entry);
        if state == State::InHandler
            && let Some(handler) = self.partitions.at(partition).map(|found| found.handler)
        {
            self.call_ended(now_ms, handler, call, None);
        }
        self.tell_cancelled(record);
        self.forget(now_ms, record);
    }

    fn check_closed(&mut self) {
        if self.shutdown == Shutdown::Begun && self.partitions.all().next().is_none() {
            self.shutdown = Shutdown::Closed;
            self.actions.push_back(Action::Closed);
        }
    }
}
