//! Outputs and failure records are published.

use super::{
    super::{
        Action, Failure, Keyed, Publish, PublishResult, RecordId,
        gates::pauses::PauseReason,
        ids::{PartitionIndex, RecordIndex},
        queues::{History, Passing, State},
    },
    Scheduler,
};

/// The backoff before something is published again.
const PUBLISH_FIRST_MS: i64 = 100;
const PUBLISH_MAX_MS: i64 = 10_000;

impl<T: Keyed> Scheduler<T> {
    /// The result of an [`Action::Publish`].
    pub fn handle_published(&mut self, now_ms: i64, record: RecordId, result: PublishResult) {
        // A result for a record that is done, revoked or lost is stale.
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

    pub(super) fn publish(&mut self, now_ms: i64, record: RecordIndex, what: Publish) {
        let Some(entry) = self.queues.entry_mut(record) else {
            return;
        };
        entry.history.publish = Some(what);
        entry.history.since_ms = now_ms;
        let id = RecordId {
            index: record,
            serial: entry.serial,
        };
        self.queues.set_out(record, State::Publishing);
        self.actions.push_back(Action::Publish { record: id, what });
    }

    /// Publishes again after a backoff.
    pub(super) fn publish_again(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(entry) = self.queues.entry(record) else { return };
        let (passing, publish, serial) = (entry.passing, entry.history.publish, entry.serial);
        self.queues.set_out(record, State::Publishing);
        if passing == Passing::Recalled {
            return self.begin_anew(now_ms, record);
        }
        if let Some(what) = publish {
            let id = RecordId { index: record, serial };
            self.actions.push_back(Action::Publish { record: id, what });
        }
    }

    pub(super) fn settle_published(&mut self, now_ms: i64, record: RecordIndex, result: PublishResult) {
        let Some(entry) = self.queues.entry(record) else { return };
        let (partition, history) = (entry.partition, entry.history);
        let is_held = matches!(history.publish, Some(Publish::HeldKeys { .. }));
        match result {
            // Without its offset in the held-keys topic, its key could not be kept in order.
            PublishResult::Acked if is_held => self.not_published(now_ms, record, partition, history),
            PublishResult::Acked | PublishResult::AckedAt(_) => {
                if let (PublishResult::AckedAt(offset), true) = (result, is_held) {
                    self.held_at(now_ms, record, offset);
                }
                if history.publish_failures > 0 {
                    self.recovered(now_ms, partition);
                }
                self.complete(now_ms, record);
            }
            PublishResult::Refused if history.publish == Some(Publish::Output) => {
                if history.publish_failures > 0 {
                    self.recovered(now_ms, partition);
                }
                let handler = self.partitions.at(partition).map(|found| found.handler);
                if let Some(handler) = handler {
                    self.failed(now_ms, record, handler, Failure::Poison);
                }
            }
            PublishResult::Failed | PublishResult::Refused => {
                self.not_published(now_ms, record, partition, history);
            }
        }
    }

    /// Publishes later again, and hands out nothing more of the partition until that has succeeded.
    fn not_published(&mut self, now_ms: i64, record: RecordIndex, partition: PartitionIndex, history: History) {
        self.totals.publish_failures += 1;
        if self.leaves_undone(partition) {
            self.tell_cancelled(record);
            return self.give_up(now_ms, record);
        }
        let doubled = 1_i64.checked_shl(history.publish_failures.min(20)).unwrap_or(1);
        let wait_ms = PUBLISH_FIRST_MS.saturating_mul(doubled).min(PUBLISH_MAX_MS);
        let jitter_ms = self.random.below(wait_ms.unsigned_abs() / 4 + 1) as i64;
        if let Some(entry) = self.queues.entry_mut(record) {
            entry.history.publish_failures = history.publish_failures.saturating_add(1);
        }
        self.queues
            .park_publish(record, now_ms.saturating_add(wait_ms).saturating_add(jitter_ms));
        if history.publish_failures == 0 {
            if let Some(found) = self.partitions.at_mut(partition) {
                found.unpublished += 1;
            }
            self.set_pause(now_ms, partition, PauseReason::Publish, true);
            self.update_block(partition);
            self.isolate_next(now_ms, partition);
        }
    }

    /// Notes that a record that could not be published before is, or need not be any more.
    pub(super) fn recovered(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        found.unpublished = found.unpublished.saturating_sub(1);
        if found.unpublished == 0 {
            self.set_pause(now_ms, partition, PauseReason::Publish, false);
            self.update_block(partition);
        }
    }
}
