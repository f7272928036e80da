//! Exactly once: a moment at which nothing is under way, so that offsets and all that was written go into one transaction.

use super::{
    super::{Action, CommitOffset, Keyed, PartitionId},
    Work,
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

impl<T: Keyed> Work<T> {
    /// Stops handing out records. [`Action::Barrier`] says when nothing is in a handler or being published.
    pub fn begin_barrier(&mut self, _now_ms: i64) {
        if matches!(self.barrier, Barrier::Open) {
            self.barrier = Barrier::Closing;
            self.check_barrier();
        }
    }

    /// What to send to the transaction: up to where partitions are done, and what is done above that. Empty before
    /// [`Action::Barrier`].
    pub fn barrier_offsets(&mut self, _now_ms: i64) -> Vec<CommitOffset> {
        if !matches!(self.barrier, Barrier::Reached | Barrier::Taken(_)) {
            return vec![];
        }
        let (offsets, snapshots) = self.snapshot(|_| true);
        self.barrier = Barrier::Taken(snapshots);
        offsets
    }

    /// The transaction has ended, and records are handed out again. If it was aborted, all that [`Self::touched`] names
    /// must be read again: tell that it is lost and assigned anew.
    pub fn end_barrier(&mut self, now_ms: i64, committed: bool) {
        let Barrier::Taken(snapshots) = std::mem::replace(&mut self.barrier, Barrier::Open) else {
            return;
        };
        if !committed {
            return;
        }
        for index in 0..self.partitions.len() {
            if let Some(partition) = self.at_mut(index) {
                partition.commit.touched = false;
            }
        }
        self.totals.commits += 1;
        self.committed(now_ms, &snapshots);
    }

    /// The partitions of which records were handed out since the last transaction was committed.
    pub fn touched(&self) -> Vec<PartitionId> {
        self.all()
            .filter(|partition| partition.commit.touched)
            .map(|partition| partition.id)
            .collect()
    }

    pub(super) fn check_barrier(&mut self) {
        let counts = self.lanes.counts();
        if matches!(self.barrier, Barrier::Closing) && counts.in_handler == 0 && counts.publishing == 0 {
            self.barrier = Barrier::Reached;
            self.actions.push_back(Action::Barrier);
        }
    }

    /// A partition is to be released, which needs a transaction.
    pub(super) fn want_barrier(&mut self) {
        let waits = self.all().any(|partition| partition.phase == Phase::Committing);
        if waits && self.barrier.lets_through() {
            self.actions.push_back(Action::BarrierWanted);
        }
    }
}
