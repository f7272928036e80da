//! Runs of records, which go to handlers as a whole where they can.
//!
//! A handler of batches gets a run in one call. One of single records gets it as many calls that follow each other, as long
//! as each of them is done at once: the first that is not interrupts the run, and what is behind it goes on key by key.

use super::{
    super::{
        Acceptance, Arrival, Delivery, HandlerId, Keyed, Order, Outcome, PartitionId, RecordId, Role, queues::State,
    },
    Scheduler, Timer,
    finish::Call,
    partition::Partition,
};
use crate::app::ids::{PartitionIndex, RecordIndex};

/// So many times as long as it may a run waits at most, and a partition counts as slow.
const PATIENCE: i64 = 5;

/// After a run was interrupted, the partition gets none for so long: the handler will most likely have to wait again.
const INTERRUPTED_MS: i64 = 50;

impl<T: Keyed> Scheduler<T> {
    /// Takes a run apart that a handler has: each of its records has an outcome of its own. Gives their numbers, in order.
    pub fn break_up(&mut self, record: RecordId) -> Vec<RecordId> {
        let Some(entry) = self.queues.find(record) else {
            return vec![];
        };
        if !entry.whole || entry.state != State::InHandler {
            return vec![record];
        }
        let singles = self.queues.break_up(record.index);
        let id_of = |index: &RecordIndex| {
            let serial = self.queues.entry(*index)?.serial;
            Some(RecordId { index: *index, serial })
        };
        singles.iter().filter_map(id_of).collect()
    }

    /// A handler of single records has done the first `done` records of a run, and has the next one, whose number is given.
    /// Those behind it get in line again. `None` if nobody waits for the run any more.
    pub fn interrupt(&mut self, now_ms: i64, record: RecordId, done: u32) -> Option<RecordId> {
        let entry = self.queues.find(record)?;
        if !entry.whole || entry.state != State::InHandler {
            return None;
        }
        let (partition, call) = (entry.partition, Call::of(entry));
        let handler = self.at(partition)?.handler;
        let singles = self.break_up(record);
        self.queues
            .set_slow_until(now_ms.saturating_add(INTERRUPTED_MS), partition);
        self.queues.break_waiting(partition);
        let (ended, left) = singles.split_at_checked(done as usize)?;
        for single in ended {
            self.handle_finished(now_ms, *single, Outcome::Done);
        }
        let (next, behind) = left.split_first()?;
        // Each is put before those that wait, so the last one goes first.
        for single in behind.iter().rev() {
            self.call_ended(now_ms, handler, Call { count: 1, ..call }, None);
            self.forget_attempt(single.index);
            self.put_back(now_ms, single.index);
        }
        Some(*next)
    }

    /// Whether records that arrive now had better come as a run.
    pub fn takes_run(&self, now_ms: i64, partition: PartitionId) -> bool {
        self.find(partition)
            .is_some_and(|found| self.goes_whole(now_ms, found, 2))
    }

    /// Whether what arrives now is kept as a whole. If it would have to wait behind its partition, and that takes long, it
    /// is not: then every key counts.
    pub(super) fn goes_whole(&self, now_ms: i64, partition: &Partition, count: u32) -> bool {
        let index = partition.id.index;
        let Some(handler) = self.handler(partition.handler).filter(|handler| handler.takes_runs) else {
            return false;
        };
        let is_plain = partition.role == Role::Main && self.config.delivery == Delivery::AtLeastOnce;
        if !is_plain || self.is_strict() || partition.guard.stages() {
            return false;
        }
        if self.queues.has_runs(index) {
            return true;
        }
        let is_slow = self.queues.is_slow(now_ms, index);
        if handler.config.batch.is_none() && (count == 1 || is_slow) {
            return false;
        }
        if handler.config.order != Order::Key || !self.queues.is_busy(index) {
            return true;
        }
        let waits_long = partition.parked > 0 || partition.unpublished > 0 || is_slow;
        handler.run_waits_ms > 0 && !waits_long
    }

    /// Splits a run that cannot be taken as a whole. Says what became of the last of it.
    pub(super) fn accept_each(&mut self, now_ms: i64, partition: PartitionId, arrival: Arrival<T>) -> Acceptance {
        let Arrival {
            mut offset,
            leader_epoch,
            bytes,
            retry,
            payload,
        } = arrival;
        let bytes = bytes / payload.records().max(1);
        let mut last = Acceptance::Stale;
        let mut left = Some(payload);
        while let Some(mut payload) = left {
            left = if payload.records() > 1 { payload.split(1) } else { None };
            let arrival = Arrival {
                offset,
                leader_epoch,
                bytes,
                retry,
                payload,
            };
            last = self.accept(now_ms, partition, arrival);
            offset += 1;
        }
        last
    }

    /// Sees to it that runs of a partition do not wait longer for others of it than a batch would.
    pub(super) fn watch_runs(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(handler) = self.at(index).and_then(|partition| self.handler(partition.handler)) else {
            return;
        };
        if handler.config.order != Order::Key {
            return;
        }
        let waits_ms = handler.run_waits_ms;
        if let Some(since_ms) = self.queues.waits_since(index) {
            let until_ms = since_ms.saturating_add(waits_ms).max(now_ms);
            self.timers.set_no_later(Timer::Runs(index), until_ms);
        }
    }

    /// Runs that have waited long enough go on key by key: as long as they may if nothing of their partition came
    /// back meanwhile, and some times as long if something did. So handlers that are slow do not keep other keys waiting, and
    /// those that only had a bad moment get runs again as soon as it is over.
    pub(super) fn break_waiting(&mut self, now_ms: i64, index: PartitionIndex) {
        let handler = self.at(index).and_then(|partition| self.handler(partition.handler));
        let Some(waits_ms) = handler.map(|handler| handler.run_waits_ms) else {
            return;
        };
        let Some(since_ms) = self.queues.waits_since(index) else {
            return;
        };
        let at_most_ms = waits_ms.saturating_mul(PATIENCE);
        let due_ms = since_ms.max(self.queues.moved_ms(index)).saturating_add(waits_ms);
        let due_ms = due_ms.min(since_ms.saturating_add(at_most_ms));
        if due_ms > now_ms {
            return self.timers.set_no_later(Timer::Runs(index), due_ms);
        }
        // They have waited for more already.
        let id = self.at(index).map(|partition| partition.handler);
        if let Some(handler) = id.and_then(|id| self.handler_mut(id)) {
            handler.ready_since_ms = Some(handler.ready_since_ms.map_or(since_ms, |ready| ready.min(since_ms)));
        }
        self.queues.set_slow_until(now_ms.saturating_add(at_most_ms), index);
        self.queues.break_waiting(index);
    }

    /// A call with something of a partition has ended.
    pub(super) fn note_moved(&mut self, now_ms: i64, index: PartitionIndex, handler: HandlerId) {
        if self.handler(handler).is_some_and(|handler| handler.takes_runs) {
            self.queues.set_moved(now_ms, index);
        }
    }
}
