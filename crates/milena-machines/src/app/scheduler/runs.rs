//! Runs of records, which go to handlers together where they can.
//!
//! A handler of batches gets a run in one call. A handler of single records gets it as many calls that follow each other, as
//! long as each of them returns at once: the first that does not interrupts the run, and the records behind it are queued
//! by key.

use super::{
    super::{
        Acceptance, Arrival, Delivery, HandlerId, Keyed, Order, Outcome, PartitionId, RecordId, Role,
        gates::Call,
        ids::{PartitionIndex, RecordIndex},
        queues::State,
    },
    Scheduler, Timer,
    partition::Partition,
};

/// A run waits at most this many times its limit; after that the partition counts as slow.
const WAITS_MAX: i64 = 5;

/// After a run was interrupted, the partition gets none for so long: its handler will most likely have to wait again.
const INTERRUPTED_MS: i64 = 50;

impl<T: Keyed> Scheduler<T> {
    /// Splits a run that a handler has, so that each record has an outcome of its own. Returns their ids by offset.
    pub fn split_run(&mut self, record: RecordId) -> Vec<RecordId> {
        let Some(entry) = self.queues.find(record) else {
            return vec![];
        };
        if !entry.is_run || entry.state != State::InHandler {
            return vec![record];
        }
        let singles = self.queues.split_run(record.index);
        let id_of = |index: RecordIndex| {
            let serial = self.queues.entry(index)?.serial;
            Some(RecordId { index, serial })
        };
        singles.into_iter().filter_map(id_of).collect()
    }

    /// A handler of single records has done the first `done` records of a run and has the next one, whose id is returned.
    /// Those behind it are queued again. `None` if the run was cancelled.
    pub fn interrupt(&mut self, now_ms: i64, record: RecordId, done: u32) -> Option<RecordId> {
        let entry = self.queues.find(record)?;
        if !entry.is_run || entry.state != State::InHandler {
            return None;
        }
        let (partition, call) = (entry.partition, Call::of(entry));
        let handler = self.partitions.at(partition)?.handler;
        let singles = self.split_run(record);
        self.queues
            .set_slow_until(now_ms.saturating_add(INTERRUPTED_MS), partition);
        self.queues.split_waiting_runs(partition);
        let (ended, left) = singles.split_at_checked(done as usize)?;
        for single in ended {
            self.handle_finished(now_ms, *single, Outcome::Done);
        }
        let (next, behind) = left.split_first()?;
        // Each is put before those that wait, so the last one goes first.
        for single in behind.iter().rev() {
            self.call_ended(now_ms, handler, Call { records: 1, ..call }, None);
            self.forget_attempt(single.index);
            self.put_back(now_ms, single.index);
        }
        Some(*next)
    }

    /// Whether records that arrive now should come as a run.
    pub fn takes_run(&self, now_ms: i64, partition: PartitionId) -> bool {
        self.partitions
            .find(partition)
            .is_some_and(|found| self.is_kept_as_run(now_ms, found, 2))
    }

    /// Whether records that arrive now are kept as a run. If they would have to wait behind their partition for long, they
    /// are queued by key.
    pub(super) fn is_kept_as_run(&self, now_ms: i64, partition: &Partition, count: u32) -> bool {
        let index = partition.id.index;
        let Some(handler) = self.handler(partition.handler).filter(|handler| handler.takes_runs) else {
            return false;
        };
        let is_plain = partition.role == Role::Main && self.config.delivery == Delivery::AtLeastOnce;
        if !is_plain || self.is_strict() || partition.guard.is_admitting() {
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

    /// Accepts the records of a run one by one. Returns the acceptance of the last.
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

    /// Bounds how long the runs of a partition wait for earlier records of it.
    pub(super) fn limit_run_wait(&mut self, now_ms: i64, partition: PartitionIndex) {
        let handler = self.handler_of(partition);
        let Some(handler) = handler.filter(|handler| handler.config.order == Order::Key) else {
            return;
        };
        let waits_ms = handler.run_waits_ms;
        if let Some(since_ms) = self.queues.waits_since(partition) {
            let until_ms = since_ms.saturating_add(waits_ms).max(now_ms);
            self.timers.set_no_later(Timer::Runs(partition), until_ms);
        }
    }

    /// Queues runs that have waited long enough by key: after their limit if no call of their partition has ended meanwhile,
    /// and after some times that limit if one has. So a slow handler does not keep other keys waiting, and one that was slow
    /// for a moment gets runs again soon.
    pub(super) fn split_waiting_runs(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at(partition) else {
            return;
        };
        let handler = found.handler;
        let Some(waits_ms) = self.handler(handler).map(|handler| handler.run_waits_ms) else {
            return;
        };
        let Some(since_ms) = self.queues.waits_since(partition) else {
            return;
        };
        let at_most_ms = waits_ms.saturating_mul(WAITS_MAX);
        let due_ms = since_ms.max(self.queues.moved_ms(partition)).saturating_add(waits_ms);
        let due_ms = due_ms.min(since_ms.saturating_add(at_most_ms));
        if due_ms > now_ms {
            return self.timers.set_no_later(Timer::Runs(partition), due_ms);
        }
        // A batch of them has lingered already.
        if let Some(handler) = self.handler_mut(handler) {
            handler.ready_since_ms = Some(handler.ready_since_ms.map_or(since_ms, |ready| ready.min(since_ms)));
        }
        self.queues.set_slow_until(now_ms.saturating_add(at_most_ms), partition);
        self.queues.split_waiting_runs(partition);
    }

    /// Notes that a call with records of a partition has ended.
    pub(super) fn note_moved(&mut self, now_ms: i64, partition: PartitionIndex, handler: HandlerId) {
        if self.handler(handler).is_some_and(|handler| handler.takes_runs) {
            self.queues.set_moved(now_ms, partition);
        }
    }
}
