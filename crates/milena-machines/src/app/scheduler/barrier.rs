//! Exactly once: a moment at which nothing is under way, so that offsets and all that was written go into one transaction.

use super::{
    super::{Action, CommitOffset, Keyed, PartitionId},
    Scheduler,
    commit::Snapshot,
    partition::Phase,
};

#[derive(Debug)]
pub(super) enum Barrier {
    /// Records are handed out.
    Open,
    /// Nothing is handed out, and what is under way comes back.
    Closing,
    /// Nothing is under way.
    Reached,
    /// These offsets are in a transaction that has not ended.
    Taken(Vec<Snapshot>),
}

impl Barrier {
    pub(super) fn lets_through(&self) -> bool {
        matches!(self, Self::Open)
    }
}

impl<T: Keyed> Scheduler<T> {
    /// Stops handing out records. [`Action::Barrier`] says when nothing is in a handler or being published.
    pub fn begin_barrier(&mut self, _now_ms: i64) {
        if matches!(self.barrier, Barrier::Open) {
            self.barrier = Barrier::Closing;
            self.check_barrier();
        }
    }

    /// What to send to the transaction: up to where partitions are done, and what is done above that. Nothing before
    /// [`Action::Barrier`], or if the transaction must be aborted: a partition is gone of which it has records.
    pub fn barrier_offsets(&mut self, _now_ms: i64) -> Option<Vec<CommitOffset>> {
        if self.spoiled || !matches!(self.barrier, Barrier::Reached | Barrier::Taken(_)) {
            return None;
        }
        let (offsets, snapshots) = self.snapshot(|_| true);
        self.barrier = Barrier::Taken(snapshots);
        Some(offsets)
    }

    /// The transaction has ended, and records are handed out again. If it was aborted, gives the partitions that must be
    /// read again: tell that they are lost, and assigned anew if they are still ours.
    pub fn end_barrier(&mut self, now_ms: i64, committed: bool) -> Vec<PartitionId> {
        let barrier = std::mem::replace(&mut self.barrier, Barrier::Open);
        self.spoiled = false;
        let mut touched = vec![];
        for index in self.partitions.indexes() {
            if let Some(partition) = self.at_mut(index).filter(|partition| partition.commit.touched) {
                partition.commit.touched = false;
                touched.push(partition.id);
            }
        }
        match barrier {
            Barrier::Taken(snapshots) if committed => {
                self.totals.commits += 1;
                self.committed(now_ms, &snapshots);
                vec![]
            }
            _ => touched,
        }
    }

    /// Whether a transaction would have offsets to tell.
    pub fn has_uncommitted(&self) -> bool {
        self.all().any(|partition| partition.is_dirty())
    }

    pub(super) fn check_barrier(&mut self) {
        let counts = self.queues.counts();
        if matches!(self.barrier, Barrier::Closing) && counts.in_handler == 0 && counts.publishing == 0 {
            self.barrier = Barrier::Reached;
            self.actions.push_back(Action::Barrier);
        }
    }

    /// A partition is to be released, which needs a transaction.
    pub(super) fn want_barrier(&mut self) {
        let waits = self.all().any(|partition| partition.phase == Phase::Committing);
        if waits && self.barrier.lets_through() {
            self.actions.push_back(Action::BarrierNeeded);
        }
    }
}
