//! Records that only wait in a retry topic and then go back to their own topic.

use super::{
    super::{Keyed, Publish, RetryInfo, RetryOrdering, Role, ids::RecordIndex, retry_topic},
    Scheduler,
};

impl<T: Keyed> Scheduler<T> {
    /// Sends a due record of a retry topic back to its own topic, if the policy says so.
    pub(super) fn divert_returning(&mut self, now_ms: i64, record: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry(record) else {
            return false;
        };
        let history = entry.history;
        let Some(found) = self.partitions.of_record(entry.partition) else {
            return false;
        };
        let Role::RetryTopic { index, .. } = found.role else {
            return false;
        };
        let handler = self.handlers.get(usize::from(found.handler.0));
        if handler.is_none_or(|handler| handler.config.retry.ordering != RetryOrdering::Return) {
            return false;
        }
        found.in_transaction = true;
        self.totals.returned += 1;
        let what = Publish::Return {
            attempts: history.attempts,
            first_failed_ms: history.first_failed_ms,
            returns: index.saturating_add(1),
        };
        self.publish(now_ms, record, what);
        true
    }

    /// Restores the history of a record that is back in its own topic. The delays that it waited for count, no matter which
    /// group sent it back: two groups that both fail with it would otherwise send it back for each other forever.
    pub(super) fn accept_returned(&mut self, now_ms: i64, record: RecordIndex, retry: Option<RetryInfo>) {
        if let Some(entry) = self.queues.entry_mut(record) {
            (entry.history.attempts, entry.history.first_failed_ms) = retry_topic::history(now_ms, retry);
            entry.history.rounds = retry.map_or(0, |retry| retry.returns);
        }
    }
}
