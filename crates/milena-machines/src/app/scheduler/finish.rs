//! Handlers return, and records are retried, published, or done.

use super::{
    super::{
        DeadLetterReason, Failure, HandlerId, Keyed, Order, Outcome, Publish, RecordId, Role, StopReason,
        gates::{Call, pauses::PauseReason},
        ids::{PartitionIndex, RecordIndex},
        queues::{Entry, Passing, State},
        retry::{self, Attempts, Decision},
    },
    Scheduler,
};
use crate::app::Action;

impl Call {
    /// The last call with a record, or with a whole run.
    pub(super) fn of<T>(entry: &Entry<T>) -> Self {
        Self {
            number: entry.history.call,
            records: entry.count,
        }
    }
}

impl<T: Keyed> Scheduler<T> {
    /// A handler has returned for a record, or for a whole run.
    pub fn handle_finished(&mut self, now_ms: i64, record: RecordId, outcome: Outcome) {
        // A result for a record that is done, revoked or lost is stale.
        let Some(entry) = self.queues.find(record) else { return };
        if entry.state != State::InHandler {
            return;
        }
        let is_done = matches!(outcome, Outcome::Done | Outcome::Skipped | Outcome::Duplicate);
        if entry.is_run && !is_done {
            for single in self.split_run(record) {
                self.handle_finished(now_ms, single, outcome);
            }
            return;
        }
        let (record, partition, call) = (record.index, entry.partition, Call::of(entry));
        let (since_ms, passing) = (entry.history.since_ms, entry.passing);
        let Some(handler) = self.partitions.at(partition).map(|found| found.handler) else {
            return;
        };
        if let Some(entry) = self.queues.entry_mut(record) {
            entry.passing = Passing::No;
        }
        self.note_moved(now_ms, partition, handler);
        if let Some(handler) = self.handler_mut(handler) {
            handler.call_time.note(now_ms.saturating_sub(since_ms));
        }
        self.call_ended(now_ms, handler, call, Some(outcome));
        self.transaction.note_finished();
        self.totals.count(outcome, u64::from(call.records));
        match outcome {
            Outcome::Done | Outcome::Skipped | Outcome::Duplicate => self.complete(now_ms, record),
            Outcome::Emit if passing == Passing::Recalled => self.begin_anew(now_ms, record),
            Outcome::Emit => self.publish(now_ms, record, Publish::Output),
            Outcome::RetryAfter { ms } => {
                self.forget_attempt(record);
                self.park(now_ms, record, now_ms.saturating_add(ms.max(1)));
            }
            Outcome::Failed(failure) => self.failed(now_ms, record, handler, failure),
        }
        self.check_barrier();
    }

    /// Gives the permits of a call back and counts it for breakers. Without an outcome it was cancelled.
    pub(super) fn call_ended(&mut self, now_ms: i64, handler: HandlerId, call: Call, outcome: Option<Outcome>) {
        if !self.gates.give_back(handler, call.records) {
            return;
        }
        let mut position = 0;
        while let Some(breaker) = self.gates.breakers_of(handler).get(position).copied() {
            if let Some(before) = self.gates.record_call(now_ms, breaker, call.number, outcome) {
                self.breaker_changed(now_ms, breaker, before);
            }
            position += 1;
        }
    }

    /// Decides about a record that failed.
    pub(super) fn failed(&mut self, now_ms: i64, record: RecordIndex, handler: HandlerId, failure: Failure) {
        if let Failure::Dependency(breaker) = failure
            && self.gates.spares_attempt(handler, breaker)
        {
            // The dependency is down: the record waits for the breaker, and this was no attempt.
            self.forget_attempt(record);
            return self.put_back(now_ms, record);
        }
        let Some(config) = self.handlers.get(usize::from(handler.0)).map(|handler| &handler.config) else {
            return;
        };
        let Some(entry) = self.queues.entry_mut(record) else {
            return;
        };
        entry.history.in_place = entry.history.in_place.saturating_add(1);
        let first_failed_ms = *entry.history.first_failed_ms.get_or_insert(now_ms);
        let role = self.partitions.at(entry.partition).map(|found| found.role);
        let tried = Attempts {
            in_place: entry.history.in_place,
            retry_topic: match role {
                Some(Role::RetryTopic { index, .. }) => Some(index),
                Some(Role::Main) => entry.history.rounds.checked_sub(1),
                _ => None,
            },
            rounds: (role == Some(Role::HeldKeys)).then_some(entry.history.rounds),
            first_failed_ms,
        };
        let attempts = entry.history.attempts;
        match retry::decide(&config.retry, tried, failure, now_ms, &mut self.random) {
            Decision::Again { due_ms } => {
                self.totals.retries += 1;
                self.park(now_ms, record, due_ms);
            }
            Decision::RetryTopic { index, due_ms } => {
                self.totals.to_retry_topics += 1;
                let what = Publish::RetryTopic {
                    index,
                    due_ms,
                    attempts,
                    first_failed_ms,
                };
                self.publish(now_ms, record, what);
            }
            Decision::Hold { due_ms } => self.hold_key(now_ms, record, due_ms),
            Decision::Round { due_ms } => {
                entry.history.rounds = entry.history.rounds.saturating_add(1);
                entry.history.in_place = 0;
                self.totals.retries += 1;
                self.park(now_ms, record, due_ms);
            }
            Decision::DeadLetter(reason) => self.dead_letter(now_ms, record, reason),
            Decision::Skip => {
                self.totals.given_up += 1;
                self.complete(now_ms, record);
            }
            Decision::Stop(reason) => self.stop(now_ms, record, reason),
        }
    }

    /// Publishes a record as a dead letter, unless its partition has too many of them.
    pub(super) fn dead_letter(&mut self, now_ms: i64, record: RecordIndex, reason: DeadLetterReason) {
        let Some(entry) = self.queues.entry(record) else { return };
        let (history, partition) = (entry.history, entry.partition);
        let found = self.partitions.of_record(partition);
        let dlq_limit = found.and_then(|found| found.dlq_limit.as_mut());
        if dlq_limit.is_some_and(|limit| limit.record(true)) {
            return self.stop(now_ms, record, StopReason::DlqLimit);
        }
        self.totals.dead_letters += 1;
        let what = Publish::DeadLetter {
            reason,
            attempts: history.attempts,
            first_failed_ms: history.first_failed_ms.unwrap_or(now_ms),
        };
        self.publish(now_ms, record, what);
    }

    /// Stops a partition. The record stays first in its queue.
    pub(super) fn stop(&mut self, now_ms: i64, record: RecordIndex, reason: StopReason) {
        let Some(entry) = self.queues.entry_mut(record) else {
            return;
        };
        entry.history.in_place = 0;
        let (partition, offset) = (entry.partition, entry.offset);
        let Some(found) = self.partitions.of_record(partition) else {
            return;
        };
        if found.stopped.is_none() {
            found.stopped = Some(reason);
            let partition = found.id;
            self.actions.push_back(Action::Stopped {
                partition,
                offset,
                reason,
            });
        }
        self.set_pause(now_ms, partition, PauseReason::Stopped, true);
        self.update_block(partition);
        self.put_back(now_ms, record);
        self.isolate_next(now_ms, partition);
    }

    /// Lets a record wait until `due_ms` for its next attempt.
    pub(super) fn park(&mut self, now_ms: i64, record: RecordIndex, due_ms: i64) {
        let Some(partition) = self.queues.entry(record).map(|entry| entry.partition) else {
            return;
        };
        if self.leaves_undone(partition) {
            return self.give_up(now_ms, record);
        }
        self.queues.park(record, due_ms);
        if let Some(found) = self.partitions.at_mut(partition) {
            found.parked += 1;
        }
        self.check_retry_pause(now_ms, partition);
        self.isolate_next(now_ms, partition);
    }

    /// The wait of a parked record is over: it is handled or published again.
    pub(super) fn unparked(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(entry) = self.queues.entry(record) else { return };
        let partition = entry.partition;
        if entry.state == State::Unpublished {
            return self.publish_again(now_ms, record);
        }
        if let Some(found) = self.partitions.at_mut(partition) {
            found.parked = found.parked.saturating_sub(1);
        }
        self.check_retry_pause(now_ms, partition);
        self.isolate_next(now_ms, partition);
    }

    /// Puts a record back to the front of its queue.
    pub(super) fn put_back(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(partition) = self.queues.entry(record).map(|entry| entry.partition) else {
            return;
        };
        if self.leaves_undone(partition) {
            return self.give_up(now_ms, record);
        }
        self.queues.put_back(record);
    }

    /// Whether records of a partition that are not done at once are left to its next owner.
    pub(super) fn leaves_undone(&self, partition: PartitionIndex) -> bool {
        let found = self.partitions.at(partition);
        !found.is_some_and(|found| found.is_active()) && !self.is_at_most_once()
    }

    pub(super) fn forget_attempt(&mut self, record: RecordIndex) {
        if let Some(entry) = self.queues.entry_mut(record) {
            entry.history.attempts = entry.history.attempts.saturating_sub(1);
        }
    }

    /// Pauses a partition in partition order while one of its records waits for its next attempt.
    pub(super) fn check_retry_pause(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at(partition) else {
            return;
        };
        let order = self.handler(found.handler).map(|handler| handler.config.order);
        let holds = order == Some(Order::Partition) && found.parked > 0;
        self.set_pause(now_ms, partition, PauseReason::Retry, holds);
    }

    /// Marks a record as done.
    pub(super) fn complete(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(entry) = self.queues.entry(record) else { return };
        let (partition, offset, count, bytes) = (entry.partition, entry.offset, entry.count, u64::from(entry.bytes));
        let is_dead = matches!(entry.history.publish, Some(Publish::DeadLetter { .. }));
        let is_strict = self.is_strict();
        let Some(found) = self.partitions.of_record(partition) else {
            return;
        };
        found.progress.complete(now_ms, found.id, offset, count, bytes);
        if !is_dead && let Some(limit) = &mut found.dlq_limit {
            limit.record(false);
        }
        let (source, has_staged) = (found.source, !found.staged.is_empty());
        let is_admitting = found.guard.is_admitting();
        self.forget(now_ms, record);
        if is_strict && has_staged || is_admitting {
            self.admit(now_ms, partition);
        }
        self.note_done(now_ms, source, u64::from(count));
        self.check_drained(now_ms, partition);
    }

    /// Leaves a record undone, for the next owner of its partition.
    pub(super) fn give_up(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(partition) = self.queues.entry(record).map(|entry| entry.partition) else {
            return;
        };
        self.forget(now_ms, record);
        self.check_drained(now_ms, partition);
    }

    /// Removes a record from its queue and from the limits.
    pub(super) fn forget(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(entry) = self.queues.entry(record) else { return };
        let (partition, size, was_due) = (entry.partition, entry.size(), entry.state != State::Staged);
        self.queues.remove(record);
        self.count_out(now_ms, partition, was_due, size);
    }
}
