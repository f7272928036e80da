//! Handlers end, and what follows.

use super::{
    super::{
        Action, BreakerId, BreakerState, Failure, HandlerId, Keyed, Order, Outcome, Publish, PublishResult, RecordId,
        Role, StopReason,
        breaker::{Breaker, CallResult},
        pauses::PauseReason,
        queues::{Entry, History, Passing, State},
        retry::{self, Attempts, Decision},
        tracker::CompletionResult,
    },
    Scheduler,
};
use crate::app::ids::{PartitionIndex, RecordIndex};
use crate::app::{DeadLetterReason, Delivery};

/// The waits before something is published again.
const PUBLISH_FIRST_MS: i64 = 100;
const PUBLISH_MAX_MS: i64 = 10_000;

/// A call of a handler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) number: u64,
    /// How many records it was made with.
    pub(super) count: u32,
}

impl Call {
    /// The last one with a record, or with a run as a whole.
    pub(super) fn of<T>(entry: &Entry<T>) -> Self {
        Self {
            number: entry.history.call,
            count: entry.count,
        }
    }
}

impl<T: Keyed> Scheduler<T> {
    /// A handler has ended with a record, or with a run that it got as a whole.
    pub fn handle_finished(&mut self, now_ms: i64, record: RecordId, outcome: Outcome) {
        let Some(entry) = self.queues.find(record) else { return };
        if entry.state != State::InHandler {
            return;
        }
        let is_done = matches!(outcome, Outcome::Done | Outcome::Skipped | Outcome::Duplicate);
        if entry.whole && !is_done {
            for single in self.break_up(record) {
                self.handle_finished(now_ms, single, outcome);
            }
            return;
        }
        let (index, partition, call, count) = (record.index, entry.partition, entry.history.call, entry.count);
        let (since_ms, passing) = (entry.history.since_ms, entry.passing);
        let Some(handler) = self.at(partition).map(|partition| partition.handler) else {
            return;
        };
        if let Some(entry) = self.queues.entry_mut(index) {
            entry.passing = Passing::No;
        }
        self.note_moved(now_ms, partition, handler);
        if let Some(handler) = self.handler_mut(handler) {
            handler.call_time.note(now_ms.saturating_sub(since_ms));
        }
        self.call_ended(now_ms, handler, Call { number: call, count }, Some(outcome));
        let records = u64::from(count);
        match outcome {
            Outcome::Done => self.totals.done += records,
            Outcome::Skipped => self.totals.skipped += records,
            Outcome::Duplicate => self.totals.duplicates += records,
            Outcome::Emit => self.totals.emitted += records,
            Outcome::RetryAfter { .. } | Outcome::Failed(_) => {}
        }
        match outcome {
            Outcome::Done | Outcome::Skipped | Outcome::Duplicate => self.complete(now_ms, index),
            Outcome::Emit if passing == Passing::Recalled => self.begin_anew(now_ms, index),
            Outcome::Emit => self.publish(now_ms, index, Publish::Output),
            Outcome::RetryAfter { ms } => {
                self.forget_attempt(index);
                self.park(now_ms, index, now_ms.saturating_add(ms.max(1)));
            }
            Outcome::Failed(failure) => self.failed(now_ms, index, handler, failure),
        }
        self.check_barrier();
    }

    /// Something that was to be published is, or could not be.
    pub fn handle_published(&mut self, now_ms: i64, record: RecordId, result: PublishResult) {
        let Some(entry) = self.queues.find(record) else { return };
        if entry.state != State::Publishing {
            return;
        }
        let passing = entry.passing;
        let is_written = entry.history.publish == Some(Publish::Output)
            && matches!(result, PublishResult::Acked | PublishResult::AckedAt(_));
        match passing {
            Passing::No if is_written && self.queues.pass_behind_others(record.index) => {
                self.settle_sent(now_ms, record, result);
            }
            Passing::No => self.settle_published(now_ms, record.index, result),
            Passing::Sent(_) => self.settle_sent(now_ms, record, result),
            Passing::Recalled => self.begin_anew(now_ms, record.index),
        }
        self.check_barrier();
    }

    pub(super) fn settle_published(&mut self, now_ms: i64, index: RecordIndex, result: PublishResult) {
        let Some(entry) = self.queues.entry(index) else { return };
        let (partition, history) = (entry.partition, entry.history);
        match result {
            // Where it is held is not known, so its key could not be kept in order.
            PublishResult::Acked if matches!(history.publish, Some(Publish::HeldKeys { .. })) => {
                self.not_published(now_ms, index, partition, history);
            }
            PublishResult::Acked | PublishResult::AckedAt(_) => {
                if let (PublishResult::AckedAt(offset), Some(Publish::HeldKeys { .. })) = (result, history.publish) {
                    self.held_at(now_ms, index, offset);
                }
                if history.publish_failures > 0 {
                    self.published_again(now_ms, partition);
                }
                self.complete(now_ms, index);
            }
            PublishResult::Refused if history.publish == Some(Publish::Output) => {
                if history.publish_failures > 0 {
                    self.published_again(now_ms, partition);
                }
                let handler = self.at(partition).map(|partition| partition.handler);
                if let Some(handler) = handler {
                    self.failed(now_ms, index, handler, Failure::Poison);
                }
            }
            PublishResult::Failed | PublishResult::Refused => self.not_published(now_ms, index, partition, history),
        }
    }

    /// The wait of a record that was parked is over.
    pub(super) fn unparked(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(entry) = self.queues.entry(index) else { return };
        let partition = entry.partition;
        let history = entry.history;
        let serial = entry.serial;
        if entry.state == State::Unpublished {
            let passing = entry.passing;
            self.queues.set_out(index, State::Publishing);
            if passing == Passing::Recalled {
                return self.begin_anew(now_ms, index);
            }
            if let Some(what) = history.publish {
                let record = RecordId { index, serial };
                self.actions.push_back(Action::Publish { record, what });
            }
            return;
        }
        if let Some(found) = self.at_mut(partition) {
            found.parked = found.parked.saturating_sub(1);
        }
        self.check_retry_pause(now_ms, partition);
        self.step(now_ms, partition);
    }

    /// Gives back what a call held. Without an outcome it was cancelled.
    pub(super) fn call_ended(&mut self, now_ms: i64, id: HandlerId, call: Call, outcome: Option<Outcome>) {
        let Some(handler) = self.handlers.get_mut(usize::from(id.0)) else {
            return;
        };
        handler.concurrency.give_back(call.count);
        if let Some(bulkhead) = handler.config.bulkhead
            && let Some(bulkhead) = self.bulkheads.get_mut(usize::from(bulkhead.0))
        {
            bulkhead.give_back(call.count);
        }
        for at in 0..handler.config.breakers.len() {
            let breaker = self
                .handler(id)
                .and_then(|handler| handler.config.breakers.get(at).copied());
            if let Some(breaker) = breaker {
                self.record_call(now_ms, breaker, call.number, outcome);
            }
        }
    }

    fn record_call(&mut self, now_ms: i64, id: BreakerId, call: u64, outcome: Option<Outcome>) {
        let result = match outcome {
            Some(Outcome::Done | Outcome::Skipped | Outcome::Duplicate | Outcome::Emit) => CallResult::Success,
            Some(Outcome::Failed(Failure::Dependency(failed))) if failed == id => CallResult::Failure,
            _ => CallResult::Unknown,
        };
        let Some(breaker) = self.breakers.get_mut(usize::from(id.0)) else {
            return;
        };
        let before = breaker.state();
        breaker.record(now_ms, call, result);
        if breaker.state() != before {
            self.breaker_changed(now_ms, id, before);
        }
    }

    pub(super) fn failed(&mut self, now_ms: i64, index: RecordIndex, handler: HandlerId, failure: Failure) {
        if let Failure::Dependency(breaker) = failure
            && self.holds_back(handler, breaker)
        {
            // Not its fault: it waits for the breaker, and that was no attempt.
            self.forget_attempt(index);
            return self.put_back(now_ms, index);
        }
        let Some(config) = self.handlers.get(usize::from(handler.0)).map(|handler| &handler.config) else {
            return;
        };
        let Some(entry) = self.queues.entry_mut(index) else {
            return;
        };
        entry.history.in_place = entry.history.in_place.saturating_add(1);
        let first_failed_ms = *entry.history.first_failed_ms.get_or_insert(now_ms);
        let partition = entry.partition;
        let role = self
            .partitions
            .get(partition)
            .and_then(Option::as_ref)
            .map(|partition| partition.role);
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
                self.park(now_ms, index, due_ms);
            }
            Decision::RetryTopic { index: tier, due_ms } => {
                self.totals.to_retry_topics += 1;
                let what = Publish::RetryTopic {
                    index: tier,
                    due_ms,
                    attempts,
                    first_failed_ms,
                };
                self.publish(now_ms, index, what);
            }
            Decision::Hold { due_ms } => self.hold(now_ms, index, due_ms),
            Decision::Round { due_ms } => {
                entry.history.rounds = entry.history.rounds.saturating_add(1);
                entry.history.in_place = 0;
                self.totals.retries += 1;
                self.park(now_ms, index, due_ms);
            }
            Decision::DeadLetter(why) => self.dead_letter(now_ms, index, why),
            Decision::Skip => {
                self.totals.given_up += 1;
                self.complete(now_ms, index);
            }
            Decision::Stop(why) => self.stop(now_ms, index, why),
        }
    }

    pub(super) fn dead_letter(&mut self, now_ms: i64, index: RecordIndex, why: DeadLetterReason) {
        let Some(entry) = self.queues.entry(index) else { return };
        let (history, partition) = (entry.history, entry.partition);
        let dlq_limit = self
            .at_mut(partition)
            .and_then(|partition| partition.dlq_limit.as_mut());
        if dlq_limit.is_some_and(|dlq_limit| dlq_limit.record(true)) {
            return self.stop(now_ms, index, StopReason::DlqLimit);
        }
        self.totals.dead_letters += 1;
        let what = Publish::DeadLetter {
            why,
            attempts: history.attempts,
            first_failed_ms: history.first_failed_ms.unwrap_or(now_ms),
        };
        self.publish(now_ms, index, what);
    }

    /// The partition stands still, and its record stays first in line.
    pub(super) fn stop(&mut self, now_ms: i64, index: RecordIndex, why: StopReason) {
        let Some(entry) = self.queues.entry_mut(index) else {
            return;
        };
        entry.history.in_place = 0;
        let (partition, offset) = (entry.partition, entry.offset);
        let Some(found) = self.at_mut(partition) else { return };
        let (id, first) = (found.id, found.stopped.is_none());
        found.stopped = found.stopped.or(Some(why));
        if first {
            let partition = id;
            self.actions.push_back(Action::Stopped { partition, offset, why });
        }
        self.set_pause(now_ms, partition, PauseReason::Stopped, true);
        self.update_block(partition);
        self.put_back(now_ms, index);
        self.step(now_ms, partition);
    }

    pub(super) fn publish(&mut self, now_ms: i64, index: RecordIndex, what: Publish) {
        let Some(entry) = self.queues.entry_mut(index) else {
            return;
        };
        entry.history.publish = Some(what);
        entry.history.since_ms = now_ms;
        let record = RecordId {
            index,
            serial: entry.serial,
        };
        self.queues.set_out(index, State::Publishing);
        self.actions.push_back(Action::Publish { record, what });
    }

    fn not_published(&mut self, now_ms: i64, index: RecordIndex, partition: PartitionIndex, history: History) {
        self.totals.publish_failures += 1;
        if self.gives_back(partition) {
            self.tell_cancelled(index);
            return self.give_up(now_ms, index);
        }
        let doubled = 1_i64.checked_shl(history.publish_failures.min(20)).unwrap_or(1);
        let wait_ms = PUBLISH_FIRST_MS.saturating_mul(doubled).min(PUBLISH_MAX_MS);
        let spread = self.random.below(wait_ms.unsigned_abs() / 4 + 1) as i64;
        if let Some(entry) = self.queues.entry_mut(index) {
            entry.history.publish_failures = history.publish_failures.saturating_add(1);
        }
        self.queues
            .park_publish(index, now_ms.saturating_add(wait_ms).saturating_add(spread));
        if history.publish_failures == 0 {
            if let Some(found) = self.at_mut(partition) {
                found.unpublished += 1;
            }
            self.set_pause(now_ms, partition, PauseReason::Publish, true);
            self.update_block(partition);
            self.step(now_ms, partition);
        }
    }

    /// One less that could not be published.
    pub(super) fn published_again(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.at_mut(partition) else { return };
        found.unpublished = found.unpublished.saturating_sub(1);
        if found.unpublished == 0 {
            self.set_pause(now_ms, partition, PauseReason::Publish, false);
            self.update_block(partition);
        }
    }

    pub(super) fn park(&mut self, now_ms: i64, index: RecordIndex, due_ms: i64) {
        let Some(partition) = self.queues.entry(index).map(|entry| entry.partition) else {
            return;
        };
        if self.gives_back(partition) {
            return self.give_up(now_ms, index);
        }
        self.queues.park(index, due_ms);
        if let Some(found) = self.at_mut(partition) {
            found.parked += 1;
        }
        self.check_retry_pause(now_ms, partition);
        self.step(now_ms, partition);
    }

    pub(super) fn put_back(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(partition) = self.queues.entry(index).map(|entry| entry.partition) else {
            return;
        };
        if self.gives_back(partition) {
            return self.give_up(now_ms, index);
        }
        self.queues.put_back(index);
    }

    /// Whether records that are not done at once are left to the next owner.
    pub(super) fn gives_back(&self, partition: PartitionIndex) -> bool {
        let is_active = self.at(partition).is_some_and(|partition| partition.is_active());
        !is_active && self.config.delivery != Delivery::AtMostOnce
    }

    pub(super) fn forget_attempt(&mut self, index: RecordIndex) {
        if let Some(entry) = self.queues.entry_mut(index) {
            entry.history.attempts = entry.history.attempts.saturating_sub(1);
        }
    }

    /// In the order of the partition nothing comes before what is parked is done.
    pub(super) fn check_retry_pause(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.at(partition) else { return };
        let order = self.handler(found.handler).map(|handler| handler.config.order);
        let holds = order == Some(Order::Partition) && found.parked > 0;
        self.set_pause(now_ms, partition, PauseReason::Retry, holds);
    }

    fn holds_back(&self, handler: HandlerId, breaker: BreakerId) -> bool {
        let needs_it = self
            .handler(handler)
            .is_some_and(|handler| handler.config.breakers.contains(&breaker));
        let waits = |breaker: &Breaker| breaker.state() != BreakerState::Closed || breaker.spares_attempts();
        needs_it && self.breaker(breaker).is_some_and(waits)
    }

    /// A record is done for good.
    pub(super) fn complete(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(entry) = self.queues.entry(index) else { return };
        let (partition, offset, count, bytes) = (entry.partition, entry.offset, entry.count, u64::from(entry.bytes));
        let died = matches!(entry.history.publish, Some(Publish::DeadLetter { .. }));
        let strict = self.is_strict();
        let Some(found) = self.at_mut(partition) else { return };
        if count > 1 {
            found.commit.done_since += found.tracker.complete_run(found.id.epoch, offset, count, bytes);
        } else if found.tracker.complete(found.id.epoch, offset, bytes) == CompletionResult::Done {
            found.commit.done_since += 1;
        }
        if !died && let Some(dlq_limit) = &mut found.dlq_limit {
            dlq_limit.record(false);
        }
        let frontier = found.tracker.frontier();
        if frontier != found.progress.frontier {
            found.progress.frontier = frontier;
            found.progress.moved_ms = now_ms;
        }
        let (source, staged) = (found.source, !found.staged.is_empty());
        let stages = found.guard.stages();
        self.forget(now_ms, index);
        if strict && staged || stages {
            self.admit(now_ms, partition);
        }
        self.note_done(now_ms, source, u64::from(count));
        self.check_drained(now_ms, partition);
    }

    /// A record is left undone, for whoever reads it next.
    pub(super) fn give_up(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(partition) = self.queues.entry(index).map(|entry| entry.partition) else {
            return;
        };
        self.forget(now_ms, index);
        self.check_drained(now_ms, partition);
    }

    /// A record is not kept any longer.
    pub(super) fn forget(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(entry) = self.queues.entry(index) else { return };
        let (partition, size, was_due) = (entry.partition, entry.size(), entry.state != State::Staged);
        self.queues.remove(index);
        self.count_out(now_ms, partition, was_due, size);
    }
}
