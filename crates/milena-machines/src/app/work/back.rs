//! Records that wait in a retry topic for no more than to go back to their own.

use super::{
    super::{Keyed, Publish, RetryInfo, RetryOrdering, Role, tier},
    Work,
};

impl<T: Keyed> Work<T> {
    /// Whether a record that was taken goes back to its own topic, and not to its handler.
    pub(super) fn send_back(&mut self, now_ms: i64, index: u32) -> bool {
        let Some(entry) = self.lanes.entry(index) else {
            return false;
        };
        let (place, story) = (entry.partition, entry.story);
        let Some(partition) = self.partitions.get_mut(place).and_then(Option::as_mut) else {
            return false;
        };
        let Role::Tier { index: tier, .. } = partition.role else {
            return false;
        };
        let handler = self.handlers.get(usize::from(partition.handler.0));
        if handler.is_none_or(|handler| handler.config.retry.ordering != RetryOrdering::Return) {
            return false;
        }
        partition.commit.touched = true;
        self.totals.returned += 1;
        let what = Publish::Return {
            attempts: story.attempts,
            first_failed_ms: story.first_failed_ms,
            returns: tier.saturating_add(1),
        };
        self.publish(now_ms, index, what);
        true
    }

    /// A record is in its own topic again. Whoever sent it back, it has had so many of the delays: else two groups that
    /// both fail with it could send it back for each other for ever.
    pub(super) fn accept_returned(&mut self, now_ms: i64, index: u32, retry: Option<RetryInfo>) {
        if let Some(entry) = self.lanes.entry_mut(index) {
            (entry.story.attempts, entry.story.first_failed_ms) = tier::history(now_ms, retry);
            entry.story.rounds = retry.map_or(0, |retry| retry.returns);
        }
    }
}
