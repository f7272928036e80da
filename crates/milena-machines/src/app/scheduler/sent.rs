//! Records of a key, or of a partition in order, that do not wait for the acknowledgement of what those before them emitted.
//!
//! A producer keeps the order in which it takes records. So the next may be handled as soon as it has taken what the one
//! before emitted. They are done in their order. If one is not written after all, those that passed it are handled again
//! behind it, so that what they emit follows what it emits.

use super::{
    super::{
        Delivery, Keyed, Publish, PublishResult, RecordId, RetryOrdering, Role,
        queues::{Passing, State},
    },
    Scheduler,
};
use crate::app::ids::{PartitionIndex, RecordIndex};

impl<T: Keyed> Scheduler<T> {
    /// A producer that keeps the order of what it takes has taken all that the handler of a record emitted. What became of
    /// it is told later, as always.
    pub fn handle_taken(&mut self, record: RecordId) {
        let Some(entry) = self.queues.find(record) else { return };
        let is_first_time = entry.history.publish_failures == 0 && entry.passing == Passing::No;
        let is_emitted = entry.state == State::Publishing && entry.history.publish == Some(Publish::Output);
        if is_first_time && is_emitted && self.may_pass(entry.partition) {
            self.queues.pass(record.index);
        }
    }

    /// At most once nothing is handled again, and with fences a key has an order that outlives the process.
    fn may_pass(&self, partition: PartitionIndex) -> bool {
        let Some(partition) = self.at(partition) else {
            return false;
        };
        let ordering = self
            .handler(partition.handler)
            .map(|handler| handler.config.retry.ordering);
        self.config.delivery != Delivery::AtMostOnce
            && partition.role == Role::Main
            && !partition.guard.stages()
            && ordering.is_some_and(|ordering| ordering != RetryOrdering::HoldKey)
            && self
                .handler(partition.handler)
                .is_some_and(|handler| handler.config.batch.is_none())
    }

    /// What became of one that others have passed. It counts when it is the first of them.
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
        for index in self.queues.recall(first) {
            self.forget_attempt(index);
            let partition = self.queues.entry(index).map(|entry| entry.partition);
            if partition.is_some_and(|partition| self.gives_back(partition)) {
                self.give_up(now_ms, index);
            }
        }
    }

    /// A record is handled again, behind one that it had passed.
    pub(super) fn begin_anew(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(entry) = self.queues.entry_mut(index) else {
            return;
        };
        let (partition, failures) = (entry.partition, entry.history.publish_failures);
        entry.history.publish = None;
        entry.history.publish_failures = 0;
        if failures > 0 {
            self.published_again(now_ms, partition);
        }
        self.forget_attempt(index);
        self.put_back(now_ms, index);
    }
}
