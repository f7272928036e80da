//! Records of a key, or of a partition in order, that do not wait for the acknowledgement of what those before them emitted.
//!
//! A producer keeps the order in which it takes records. So the next may be handled as soon as it has taken the output of the
//! one before. They are done in their order. If one is not written after all, those that passed it are handled again
//! behind it, so that their output follows its output.

use super::{
    super::{
        Delivery, Keyed, Publish, PublishResult, RecordId, RetryOrdering, Role,
        ids::{PartitionIndex, RecordIndex},
        queues::{Passing, State},
    },
    Scheduler,
};

impl<T: Keyed> Scheduler<T> {
    /// A producer that keeps the order of records has taken all output of one. Its result follows, as always.
    pub fn handle_taken(&mut self, record: RecordId) {
        // The record may have been acknowledged, revoked or lost before.
        let Some(entry) = self.queues.find(record) else { return };
        let is_first_time = entry.history.publish_failures == 0 && entry.passing == Passing::No;
        let is_output = entry.state == State::Publishing && entry.history.publish == Some(Publish::Output);
        if is_first_time && is_output && self.may_pass(entry.partition) {
            self.queues.pass(record.index);
        }
    }

    /// At most once nothing is handled again, and with key holds a key has an order that outlives the process.
    fn may_pass(&self, partition: PartitionIndex) -> bool {
        let Some(found) = self.partitions.at(partition) else {
            return false;
        };
        let Some(handler) = self.handler(found.handler) else {
            return false;
        };
        self.config.delivery != Delivery::AtMostOnce
            && found.role == Role::Main
            && !found.guard.is_admitting()
            && handler.config.retry.ordering != RetryOrdering::HoldKey
            && handler.config.batch.is_none()
    }

    /// Settles a record that others have passed. Its result counts when it is the first of them.
    pub(super) fn settle_sent(&mut self, now_ms: i64, record: RecordId, result: PublishResult) {
        if let Some(entry) = self.queues.entry_mut(record.index) {
            entry.passing = Passing::Sent(Some(result));
        }
        let mut next = Some(record);
        while let Some(record) = next.filter(|record| self.queues.find(*record).is_some()) {
            let Some((first, result)) = self.queues.first_sent(record.index) else {
                return;
            };
            next = self.queues.next_sent(first.index);
            if !matches!(result, PublishResult::Acked | PublishResult::AckedAt(_)) {
                next = None;
                self.recall(now_ms, first.index);
            }
            self.settle_published(now_ms, first.index, result);
        }
    }

    fn recall(&mut self, now_ms: i64, first: RecordIndex) {
        for record in self.queues.recall(first) {
            self.forget_attempt(record);
            let partition = self.queues.entry(record).map(|entry| entry.partition);
            if partition.is_some_and(|partition| self.leaves_undone(partition)) {
                self.give_up(now_ms, record);
            }
        }
    }

    /// Handles a record again, behind one that it had passed.
    pub(super) fn begin_anew(&mut self, now_ms: i64, record: RecordIndex) {
        let Some(entry) = self.queues.entry_mut(record) else {
            return;
        };
        let (partition, failures) = (entry.partition, entry.history.publish_failures);
        entry.history.publish = None;
        entry.history.publish_failures = 0;
        if failures > 0 {
            self.recovered(now_ms, partition);
        }
        self.forget_attempt(record);
        self.put_back(now_ms, record);
    }
}
