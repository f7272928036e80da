//! Records come, and get in line when they may.

use super::{
    super::{
        Acceptance, Arrival, Delivery, Keyed, PartitionId, RetryInfo, Role,
        pauses::PauseReason,
        queues::{Entry, Size, State},
        retry_topic,
        tracker::DeliveryResult,
    },
    Scheduler, Timer,
};
use crate::app::ids::{PartitionIndex, RecordIndex};

/// So long before they are due records of retry topics are read.
const READ_AHEAD_MS: i64 = 2_000;

impl<T: Keyed> Scheduler<T> {
    /// A record was read, or a run of them. Those of a partition come in the order of their offsets.
    pub fn accept(&mut self, now_ms: i64, partition: PartitionId, arrival: Arrival<T>) -> Acceptance {
        let Some(found) = self.find(partition).filter(|found| found.is_active()) else {
            return Acceptance::Stale;
        };
        let count = arrival.payload.records();
        let whole = self.goes_whole(now_ms, found, count);
        if count > 1 && !whole {
            return self.accept_each(now_ms, partition, arrival);
        }
        let Some(found) = self.at_mut(partition.index) else {
            return Acceptance::Stale;
        };
        let mut begins = false;
        if found.tracker.pending() == 0 {
            found.progress.moved_ms = now_ms;
            begins = found.guard.is_new();
        }
        let (offset, leader_epoch, bytes) = (arrival.offset, arrival.leader_epoch, u64::from(arrival.bytes));
        let delivered = if count == 1 {
            found.tracker.deliver(offset, leader_epoch, bytes)
        } else if found.tracker.deliver_run(offset, count, leader_epoch, bytes) {
            DeliveryResult::Pending
        } else {
            return self.accept_each(now_ms, partition, arrival);
        };
        match delivered {
            DeliveryResult::Twice => return Acceptance::Stale,
            DeliveryResult::Finished => {
                let source = found.source;
                self.totals.finished_before += 1;
                self.note_done(now_ms, source, 1);
                return Acceptance::Finished;
            }
            DeliveryResult::Pending => {}
        }
        let (handler, role, stages) = (found.handler, found.role, found.guard.stages());
        let size = Size {
            records: count,
            bytes: arrival.bytes,
        };
        let retry = arrival.retry;
        let record = self
            .queues
            .insert(partition.index, offset, arrival.bytes, arrival.payload);
        self.count_in(now_ms, partition.index, handler, size);
        if role == Role::HeldKeys {
            let first_ms = self
                .handler(handler)
                .and_then(|handler| handler.config.retry.delays_ms.first().copied());
            let due_ms = retry.and_then(|retry| retry.due_ms);
            let due_ms = due_ms.map(|_| retry_topic::due_ms(now_ms, first_ms.unwrap_or(0), retry));
            self.accept_held(record.index, retry_topic::history(now_ms, retry), due_ms);
        }
        if role == Role::Main && retry.is_some() {
            self.accept_returned(now_ms, record.index, retry);
        }
        let is_tier = matches!(role, Role::RetryTopic { .. });
        if whole {
            self.queues.enqueue_whole(now_ms, record.index);
            self.watch_runs(now_ms, partition.index);
        } else if !is_tier && self.config.delivery == Delivery::AtLeastOnce && !self.is_strict() && !stages {
            self.queues.enqueue_single(record.index);
        } else {
            self.stage_record(now_ms, partition.index, record.index, retry);
        }
        if begins {
            self.begin(now_ms, partition.index);
        }
        Acceptance::Taken(record)
    }

    /// The consumer goes on at `next_offset`: what lies below and was not delivered does not exist.
    pub fn handle_position(&mut self, now_ms: i64, partition: PartitionId, next_offset: i64) {
        let Some(found) = self.at_mut(partition.index) else {
            return;
        };
        if found.id != partition || !found.is_active() || next_offset <= found.tracker.end() {
            return;
        }
        found.tracker.advance(next_offset);
        let source = found.source;
        if self.config.delivery == Delivery::AtMostOnce {
            return self.note_staged(now_ms, source);
        }
        self.note_done(now_ms, source, 1);
    }

    fn stage_record(&mut self, now_ms: i64, partition: PartitionIndex, index: RecordIndex, retry: Option<RetryInfo>) {
        let Some(found) = self.at_mut(partition) else { return };
        found.staged.push_back(index);
        let (role, source, is_first) = (found.role, found.source, found.staged.len() == 1);
        if let Role::RetryTopic { delay_ms, .. } = role
            && let Some(entry) = self.queues.entry_mut(index)
        {
            let (attempts, first_failed_ms) = retry_topic::history(now_ms, retry);
            entry.history.attempts = attempts;
            entry.history.first_failed_ms = first_failed_ms;
            entry.history.since_ms = retry_topic::due_ms(now_ms, delay_ms, retry);
        }
        if self.config.delivery == Delivery::AtMostOnce {
            return self.note_staged(now_ms, source);
        }
        if is_first {
            self.admit(now_ms, partition);
        } else {
            self.check_read_ahead(now_ms, partition);
        }
    }

    /// What is due soon is read in time: a fetch that would begin when it is due might have to wait for another. What is due
    /// later stays where it is.
    pub(super) fn check_read_ahead(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.at(partition) else { return };
        if !matches!(found.role, Role::RetryTopic { .. }) {
            return;
        }
        let last = found.staged.back().and_then(|last| self.queues.entry(*last));
        let wanted_ms = last.map_or(now_ms, |last| last.history.since_ms.saturating_sub(READ_AHEAD_MS));
        self.set_pause(now_ms, partition, PauseReason::NotDue, wanted_ms > now_ms);
        if wanted_ms > now_ms {
            self.timers.set_no_later(Timer::Due(partition), wanted_ms);
        }
    }

    /// Lets the staged records of a partition in line, up to the first that may not yet.
    pub(super) fn admit(&mut self, now_ms: i64, partition: PartitionIndex) {
        if self.at(partition).is_some_and(|found| found.guard.is_isolating()) {
            return self.step(now_ms, partition);
        }
        let mut waits_for_map = false;
        let mut due_ms = None;
        while let Some(found) = self.at(partition)
            && let Some(index) = found.staged.front().copied()
            && let Some(entry) = self.queues.entry(index)
        {
            let is_tier = matches!(found.role, Role::RetryTopic { .. });
            due_ms = Some(entry.history.since_ms).filter(|due_ms| is_tier && *due_ms > now_ms);
            let room = i64::try_from(self.room.offsets()).unwrap_or(i64::MAX).max(1);
            waits_for_map = self.is_strict() && entry.offset >= found.tracker.frontier().saturating_add(room);
            let uncommitted = self.config.delivery == Delivery::AtMostOnce && entry.offset >= found.commit.cleared;
            let offset = entry.offset;
            if due_ms.is_some() || waits_for_map || uncommitted || entry.state != State::Staged {
                break;
            }
            if !self.guard_lets(now_ms, partition, offset) {
                break;
            }
            if let Some(found) = self.at_mut(partition) {
                found.staged.pop_front();
            }
            let size = self.queues.entry(index).map(Entry::size);
            self.queues.enqueue(index);
            if let Some(size) = size.filter(|_| is_tier) {
                self.count_due(now_ms, partition, size);
            }
        }
        self.set_pause(now_ms, partition, PauseReason::Map, waits_for_map);
        if let Some(due_ms) = due_ms {
            self.timers.set(Timer::Due(partition), due_ms);
        }
        self.check_read_ahead(now_ms, partition);
    }
}
