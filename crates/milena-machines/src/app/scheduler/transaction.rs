//! Exactly once: the barrier, and the transaction that is committed there.

use super::{
    super::{Action, CommitOffset, Keyed, PartitionId, TransactionPhase},
    Scheduler,
    partition::Phase,
};

impl<T: Keyed> Scheduler<T> {
    /// How far the open transaction is.
    pub fn transaction_phase(&self) -> TransactionPhase {
        self.transaction.phase()
    }

    /// Stops handing out records. [`Action::Barrier`] follows when no record is in a handler or being published.
    pub fn begin_barrier(&mut self, _now_ms: i64) {
        self.transaction.begin_barrier();
        self.check_barrier();
    }

    /// The offsets for the transaction. `None` before [`Action::Barrier`], or if the transaction must be aborted: a
    /// partition is gone of which it has records.
    pub fn barrier_offsets(&mut self, _now_ms: i64) -> Option<Vec<CommitOffset>> {
        if !self.transaction.can_commit() {
            return None;
        }
        let (offsets, snapshots) = self.snapshot(|_| true);
        self.transaction.offsets_taken(snapshots);
        Some(offsets)
    }

    /// An output of the open transaction could not be written, so it must be aborted.
    pub fn handle_transaction_failed(&mut self) {
        self.transaction.must_abort();
    }

    /// The transaction has ended, and records are handed out again. If it was aborted, returns the partitions that must be
    /// read again: report them as lost, and as assigned again if they still are.
    pub fn end_barrier(&mut self, now_ms: i64, committed: bool) -> Vec<PartitionId> {
        let snapshots = self.transaction.end();
        let mut in_transaction = vec![];
        for partition in self.partitions.indexes() {
            let found = self.partitions.at_mut(partition);
            if let Some(found) = found.filter(|found| found.in_transaction) {
                found.in_transaction = false;
                in_transaction.push(found.id);
            }
        }
        match snapshots {
            Some(snapshots) if committed => {
                self.totals.commits += 1;
                self.committed(now_ms, &snapshots);
                vec![]
            }
            _ => in_transaction,
        }
    }

    /// Whether a transaction would have offsets.
    pub fn has_uncommitted(&self) -> bool {
        self.partitions.all().any(|found| found.is_dirty())
    }

    pub(super) fn check_barrier(&mut self) {
        let counts = self.queues.counts();
        if self.transaction.check_barrier(counts.in_handler + counts.publishing) {
            self.actions.push_back(Action::Barrier);
        }
    }

    /// Asks for a transaction if a partition needs it to be released.
    pub(super) fn request_transaction(&mut self) {
        let is_needed = self.partitions.all().any(|found| found.phase == Phase::Committing);
        if is_needed && self.transaction.request_commit() {
            self.actions.push_back(Action::BarrierNeeded);
        }
    }
}
