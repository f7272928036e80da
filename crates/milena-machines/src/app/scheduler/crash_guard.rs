//! Owners that die: see [`crash_guard`](super::super::crash_guard).

use super::{
    super::{
        Action, Assignment, CrashCounters, DeadLetterReason, Delivery, Keyed, Role, crash_guard::Guard, queues::Entry,
        retry, retry::Decision,
    },
    Scheduler, Timer,
};
use crate::app::ids::{Index, PartitionIndex, RecordIndex};

impl<T: Keyed> Scheduler<T> {
    /// What a new owner has to mind, if what lies above `done` was not done by those before.
    pub(super) fn guard(&self, assignment: &Assignment, found: CrashCounters, done: Option<i64>) -> Guard {
        let Some(limit) = self.config.crash_limit else {
            return Guard::off();
        };
        // At most once nothing is begun twice. With transactions it is not counted.
        if self.config.delivery != Delivery::AtLeastOnce {
            return Guard::off();
        }
        let at_once = self
            .handler(assignment.handler)
            .map_or(0, |handler| handler.config.limits.records_high);
        // They can have done what the commit tells, and had so much out above that.
        let last = done.map_or(assignment.position, |done| done.max(assignment.position));
        let end = last.saturating_add(i64::try_from(at_once).unwrap_or(i64::MAX));
        Guard::new(limit, found, assignment.position, end)
    }

    /// A partition has come: nothing of it is handed out before it is told that it was begun.
    pub(super) fn guard_new(&mut self, index: PartitionIndex) {
        self.update_block(index);
        let Some(found) = self.at(index) else { return };
        if found.guard.is_isolating() {
            let (id, offset, owners) = (found.id, found.tracker.frontier(), found.guard.died());
            self.condemns |= found.guard.is_condemned(offset);
            let partition = id;
            self.actions.push_back(Action::Isolating {
                partition,
                offset,
                owners,
            });
        }
    }

    /// The first record of a partition is here.
    pub(super) fn begin(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(found) = self.at_mut(index) else { return };
        found.guard.begin(found.tracker.frontier());
        let source = found.source;
        self.tell(now_ms, source);
    }

    /// The group knows something that had to be told before more is handed out.
    pub(super) fn guard_moved(&mut self, now_ms: i64, index: PartitionIndex) {
        self.update_block(index);
        self.admit(now_ms, index);
        self.step(now_ms, index);
    }

    /// Whether a record may get in line. If it must be told before, it will be.
    pub(super) fn guard_lets(&mut self, now_ms: i64, index: PartitionIndex, offset: i64) -> bool {
        let Some(found) = self.at_mut(index).filter(|found| found.guard.stages()) else {
            return true;
        };
        let (frontier, pending, source) = (found.tracker.frontier(), found.tracker.pending(), found.source);
        let lets = found.guard.lets(offset, frontier, pending);
        if !lets {
            self.tell(now_ms, source);
        }
        lets
    }

    /// A partition of which one record is handed out at a time goes on, if it can: it takes its turn, tells, lets the next in
    /// line, or makes way for another.
    pub(super) fn step(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(found) = self.at(index).filter(|found| found.guard.is_isolating()) else {
            return self.leave_turn(now_ms, index);
        };
        // What is given back ends what it has, and then goes.
        if !found.is_active() {
            return;
        }
        let (frontier, pending, source) = (found.tracker.frontier(), found.tracker.pending(), found.source);
        let is_in_line = found.gauge.records > found.staged.len() as u64;
        let is_stuck = found.stopped.is_some() || found.parked > 0 || found.unpublished > 0;
        let is_past = found.guard.is_past(frontier, pending);
        let is_condemned = found.guard.is_condemned(frontier);
        let is_here = found.commit.offset == Some(frontier);
        let has_next = is_in_line || self.is_head_due(now_ms, index);
        let wants_turn = has_next && !is_stuck && !is_past && !is_condemned;
        if wants_turn && self.turn_of.is_none() {
            self.turn_of = Some(index);
        }
        let has_turn = self.turn_of == Some(index);
        let Some(found) = self.at_mut(index) else { return };
        if is_past {
            found.guard.end_care();
            self.update_block(index);
            return self.tell(now_ms, source);
        }
        let is_told = found.guard.step(wants_turn && has_turn, frontier, is_here);
        self.update_block(index);
        if !is_told {
            return self.tell(now_ms, source);
        }
        if has_turn && !wants_turn {
            self.leave_turn(now_ms, index);
        }
        if has_next && !is_in_line && !self.queues.is_blocked(index) {
            self.enqueue_head(now_ms, index);
        }
    }

    /// Another partition may hand out its record.
    pub(super) fn leave_turn(&mut self, now_ms: i64, index: PartitionIndex) {
        if self.turn_of != Some(index) {
            return;
        }
        self.turn_of = None;
        for other in self.partitions.indexes_from(index.position() + 1) {
            if other != index && self.at(other).is_some_and(|other| other.guard.is_isolating()) {
                self.step(now_ms, other);
            }
            if self.turn_of.is_some() {
                return;
            }
        }
    }

    /// Whether a record was taken that killed those who had it before. It is not handed out.
    pub(super) fn condemn(&mut self, now_ms: i64, index: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry(index) else {
            return false;
        };
        let (place, offset) = (entry.partition, entry.offset);
        let Some(found) = self.at(place).filter(|found| found.guard.is_condemned(offset)) else {
            return false;
        };
        let (partition, owners, handler) = (found.id, found.guard.died(), found.handler);
        self.totals.quarantined += 1;
        self.actions.push_back(Action::Quarantined {
            partition,
            offset,
            owners,
        });
        if let Some(entry) = self.queues.entry_mut(index) {
            entry.history.attempts = entry.history.attempts.saturating_add(owners);
        }
        let policy = self.handler(handler).map(|handler| &handler.config.retry);
        match policy.map(|policy| retry::exhausted(policy, DeadLetterReason::Crash { owners })) {
            Some(Decision::Stop(why)) => {
                // Whoever goes on with it wants it tried.
                if let Some(found) = self.at_mut(place) {
                    found.guard.pardon();
                }
                self.stop(now_ms, index, why);
            }
            Some(Decision::DeadLetter(why)) => self.dead_letter(now_ms, index, why),
            _ => {
                self.totals.given_up += 1;
                self.complete(now_ms, index);
            }
        }
        true
    }

    /// Whether the first of the records that are not in line could be, as far as its time goes.
    fn is_head_due(&mut self, now_ms: i64, index: PartitionIndex) -> bool {
        let Some(found) = self.at(index) else { return false };
        let is_tier = matches!(found.role, Role::RetryTopic { .. });
        let head = found.staged.front().and_then(|head| self.queues.entry(*head));
        let due_ms = head.map(|head| if is_tier { head.history.since_ms } else { i64::MIN });
        let waits_until = due_ms.filter(|due_ms| *due_ms > now_ms);
        if let Some(due_ms) = waits_until {
            self.timers.set(Timer::Due(index), due_ms);
        }
        self.check_read_ahead(now_ms, index);
        due_ms.is_some() && waits_until.is_none()
    }

    fn enqueue_head(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(found) = self.at_mut(index) else { return };
        let is_tier = matches!(found.role, Role::RetryTopic { .. });
        let Some(head) = found.staged.pop_front() else { return };
        let size = self.queues.entry(head).map(Entry::size);
        self.queues.enqueue(head);
        if let Some(size) = size.filter(|_| is_tier) {
            self.count_due(now_ms, index, size);
        }
    }
}
