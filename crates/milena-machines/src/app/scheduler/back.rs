//! Records that wait in a retry topic for no more than to go back to their own.

use super::{
    super::{Keyed, Publish, RetryInfo, RetryOrdering, Role, retry_topic},
    Scheduler,
};
use crate::app::ids::RecordIndex;

impl<T: Keyed> Scheduler<T> {
    /// Whether a record that was taken goes back to its own topic, and not to its handler.
    pub(super) fn send_back(&mut self, now_ms: i64, index: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry(index) else {
            return false;
        };
        let (place, history) = (entry.partition, entry.history);
        let Some(partition) = self.partitions.get_mut(place).and_then(Option::as_mut) else {
            return false;
        };
        let Role::RetryTopic { index: tier, .. } = partition.role else {
            return false;
        };
        let handler = self.handlers.get(usize::from(partition.handler.0));
        if handler.is_none_or(|handler| handler.config.retry.ordering != RetryOrdering::Return) {
            return false;
        }
        partition.commit.touched = true;
        self.totals.returned += 1;
        let what = Publish::Return {
            attempts: history.attempts,
            first_failed_ms: history.first_failed_ms,
            returns: tier.saturating_add(1),
        };
        self.publish(now_ms, index, what);
        true
    }

    /// A record is in its own topic again. Whoever sent it back, it has had so many of the delays: else two groups that
    /// both fail with it could send it back for each other for ever.
    pub(super) fn accept_returned(&mut self, now_ms: i64, index: RecordIndex, retry: Option<RetryInfo>) {
        if let Some(entry) = self.queues.entry_mut(index) {
            (entry.history.attempts, entry.history.first_failed_ms) = retry_topic::history(now_ms, retry);
            entry.history.rounds = retry.map_or(0, |retry| retry.returns);
        }
    }
}
