//! Records that crash processes: see [`crash_guard`](super::super::crash_guard).

use super::{
    super::{
        Action, DeadLetterReason, Keyed,
        gates::Gate,
        ids::{Index, PartitionIndex, RecordIndex},
        retry,
        retry::Decision,
    },
    Scheduler, Timer,
};

impl<T: Keyed> Scheduler<T> {
    /// Applies the guard of a partition that was assigned: nothing is handed out before its start is announced.
    pub(super) fn guard_new(&mut self, partition: PartitionIndex) {
        self.update_block(partition);
        let found = self.partitions.at(partition);
        let Some(found) = found.filter(|found| found.guard.is_isolating()) else {
            return;
        };
        let (id, offset, owners) = (found.id, found.progress.frontier(), found.guard.crashes());
        if found.guard.is_quarantined(offset) {
            self.gates.require(Gate::Quarantine);
        }
        self.actions.push_back(Action::Isolating {
            partition: id,
            offset,
            owners,
        });
    }

    /// Announces the start of a partition whose first record has arrived.
    pub(super) fn announce_start(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        found.guard.begin(found.progress.frontier());
        let source = found.source;
        self.announce(now_ms, source);
    }

    /// Goes on after a commit that the guard of a partition has waited for.
    pub(super) fn guard_moved(&mut self, now_ms: i64, partition: PartitionIndex) {
        self.update_block(partition);
        self.admit(now_ms, partition);
        self.isolate_next(now_ms, partition);
    }

    /// Whether the guard admits a record to its queue. If something must be announced before, it will be.
    pub(super) fn guard_admits(&mut self, now_ms: i64, partition: PartitionIndex, offset: i64) -> bool {
        let found = self.partitions.at_mut(partition);
        let Some(found) = found.filter(|found| found.guard.is_admitting()) else {
            return true;
        };
        let source = found.source;
        let is_admitted = found.guard.admits(offset, found.reached());
        if !is_admitted {
            self.announce(now_ms, source);
        }
        is_admitted
    }

    /// The next step of an isolating partition: it takes its turn, announces, admits the next record, or leaves the turn to
    /// another partition. A partition that does not isolate leaves its turn.
    pub(super) fn isolate_next(&mut self, now_ms: i64, partition: PartitionIndex) {
        let found = self.partitions.at(partition);
        let Some(found) = found.filter(|found| found.guard.is_isolating()) else {
            return self.leave_turn(now_ms, partition);
        };
        // A partition that is given back finishes the record that it has.
        if !found.is_active() {
            return;
        }
        let (reached, source) = (found.reached(), found.source);
        let is_queued = found.gauge.records > found.staged.len() as u64;
        let is_stuck = found.stopped.is_some() || found.parked > 0 || found.unpublished > 0;
        let is_past = found.guard.is_past(reached);
        let is_quarantined = found.guard.is_quarantined(reached.frontier);
        let is_committed = found.progress.committed() == Some(reached.frontier);
        let has_next = is_queued || self.is_staged_due(now_ms, partition);
        let wants_turn = has_next && !is_stuck && !is_past && !is_quarantined;
        let has_turn = self.crash_guard.take_turn(partition, wants_turn);
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        if is_past {
            found.guard.end_isolation();
            self.update_block(partition);
            return self.announce(now_ms, source);
        }
        let is_announced = found
            .guard
            .isolate(wants_turn && has_turn, reached.frontier, is_committed);
        self.update_block(partition);
        if !is_announced {
            return self.announce(now_ms, source);
        }
        if has_turn && !wants_turn {
            self.leave_turn(now_ms, partition);
        }
        if has_next && !is_queued && !self.queues.is_blocked(partition) {
            self.enqueue_staged(now_ms, partition);
        }
    }

    /// Lets another isolating partition hand out its record.
    pub(super) fn leave_turn(&mut self, now_ms: i64, partition: PartitionIndex) {
        if !self.crash_guard.leave_turn(partition) {
            return;
        }
        for other in self.partitions.indexes_from(partition.position() + 1) {
            let found = self.partitions.at(other).filter(|_| other != partition);
            if found.is_some_and(|found| found.guard.is_isolating()) {
                self.isolate_next(now_ms, other);
            }
            if self.crash_guard.is_turn_taken() {
                return;
            }
        }
    }

    /// Gives up a quarantined record, as its retry policy says.
    pub(super) fn divert_quarantined(&mut self, now_ms: i64, record: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry_mut(record) else {
            return false;
        };
        let (partition, offset) = (entry.partition, entry.offset);
        let found = self.partitions.of_record(partition);
        let Some(found) = found.filter(|found| found.guard.is_quarantined(offset)) else {
            return false;
        };
        let (id, owners) = (found.id, found.guard.crashes());
        self.totals.quarantined += 1;
        self.actions.push_back(Action::Quarantined {
            partition: id,
            offset,
            owners,
        });
        entry.history.attempts = entry.history.attempts.saturating_add(owners);
        let handler = self.handlers.get(usize::from(found.handler.0));
        let policy = handler.map(|handler| &handler.config.retry);
        match policy.map(|policy| retry::exhausted(policy, DeadLetterReason::Crash { owners })) {
            Some(Decision::Stop(reason)) => {
                // An operator who restarts the partition wants the record to be tried.
                found.guard.end_quarantine();
                self.stop(now_ms, record, reason);
            }
            Some(Decision::DeadLetter(reason)) => self.dead_letter(now_ms, record, reason),
            _ => {
                self.totals.given_up += 1;
                self.complete(now_ms, record);
            }
        }
        true
    }

    /// Whether the first staged record of a partition is due.
    fn is_staged_due(&mut self, now_ms: i64, partition: PartitionIndex) -> bool {
        let Some(found) = self.partitions.at(partition) else {
            return false;
        };
        let is_retry_topic = found.is_retry_topic();
        let first = found.staged.front().and_then(|first| self.queues.entry(*first));
        let due_ms = first.map(|first| {
            if is_retry_topic {
                first.history.since_ms
            } else {
                i64::MIN
            }
        });
        let waits_until_ms = due_ms.filter(|due_ms| *due_ms > now_ms);
        if let Some(due_ms) = waits_until_ms {
            self.timers.set(Timer::Due(partition), due_ms);
        }
        self.check_read_ahead(now_ms, partition);
        due_ms.is_some() && waits_until_ms.is_none()
    }
}
