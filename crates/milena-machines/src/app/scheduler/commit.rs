//! Commits: offsets and maps go to the group.

use super::{
    super::{
        Action, CommitOffset, CommitResult, Delivery, Keyed, SourceId,
        progress::commits::{CommitTime, Snapshot},
    },
    Scheduler, Timer,
};

impl<T: Keyed> Scheduler<T> {
    /// The result of an [`Action::Commit`].
    pub fn handle_committed(&mut self, now_ms: i64, source: SourceId, result: CommitResult) {
        // Without a commit in flight the result is stale.
        let Some(snapshots) = self.commits.take_in_flight(source) else {
            return;
        };
        match result {
            CommitResult::Ok => {
                self.commits.succeeded(source);
                self.totals.commits += 1;
                self.committed(now_ms, &snapshots);
            }
            CommitResult::MetadataTooLarge => {
                self.totals.commit_failures += 1;
                self.commit_failed(&snapshots);
                self.commits.metadata_too_large(source);
            }
            CommitResult::Failed | CommitResult::Lost => {
                self.commits.failed(source);
                self.totals.commit_failures += 1;
                self.commit_failed(&snapshots);
                self.drain_without_commit(now_ms, source, result == CommitResult::Lost);
            }
        }
        let is_dirty = self.is_source_dirty(source);
        let idle_ms = Some(self.config.commit.idle_ms).filter(|_| !self.is_at_most_once());
        let time = self
            .commits
            .next_commit(now_ms, source, is_dirty, idle_ms, &mut self.random);
        self.commit_at(now_ms, source, time);
    }

    /// Notes that records of a source are done.
    pub(super) fn note_done(&mut self, now_ms: i64, source: SourceId, count: u64) {
        if self.config.delivery != Delivery::AtLeastOnce {
            return;
        }
        let time = self.commits.note_done(now_ms, source, count, &self.config.commit);
        self.commit_at(now_ms, source, time);
    }

    /// At most once: notes that records wait for the commit of their offsets.
    pub(super) fn note_staged(&mut self, now_ms: i64, source: SourceId) {
        let time = self.commits.note_staged(now_ms, source);
        self.commit_at(now_ms, source, time);
    }

    /// Commits soon: more records are handed out only when the group knows what the commit announces.
    pub(super) fn announce(&mut self, now_ms: i64, source: SourceId) {
        let time = self.commits.announce(now_ms, source);
        self.commit_at(now_ms, source, time);
    }

    pub(super) fn commit_timeout(&mut self, now_ms: i64, source: SourceId) {
        let may_wait = self.config.delivery == Delivery::AtLeastOnce;
        let time = self
            .commits
            .handle_timeout(now_ms, source, &self.config.commit, may_wait);
        self.commit_at(now_ms, source, time);
    }

    fn commit_at(&mut self, now_ms: i64, source: SourceId, time: CommitTime) {
        let timer = Timer::Commit(source);
        match time {
            CommitTime::Now => self.commit_now(now_ms, source),
            CommitTime::At(at_ms) => self.timers.set(timer, at_ms),
            CommitTime::NoLaterThan(at_ms) => self.timers.set_no_later(timer, at_ms),
            CommitTime::Never => self.timers.cancel(&timer),
            CommitTime::Unchanged => {}
        }
    }

    /// Commits all news of a source, now or when the commit in flight has ended.
    pub(super) fn commit_now(&mut self, now_ms: i64, source: SourceId) {
        if self.config.delivery == Delivery::ExactlyOnce {
            if self.is_source_dirty(source) {
                self.request_transaction();
            }
            return;
        }
        if !self.commits.begin(source) {
            return;
        }
        let (offsets, snapshots) = if self.is_at_most_once() {
            self.snapshot_ahead(now_ms, source)
        } else {
            self.snapshot(|partition| partition == source)
        };
        self.commits.sent(now_ms, source, snapshots);
        if !offsets.is_empty() {
            self.actions.push_back(Action::Commit { source, offsets });
        }
    }

    /// Takes offset and map of all partitions with news, each pair from the same moment.
    pub(super) fn snapshot(&mut self, is_included: impl Fn(SourceId) -> bool) -> (Vec<CommitOffset>, Vec<Snapshot>) {
        let (mut offsets, mut snapshots) = (vec![], vec![]);
        let room = self.commits.room();
        for partition in self.partitions.indexes() {
            let found = self.partitions.at_mut(partition);
            let Some(found) = found.filter(|found| is_included(found.source) && found.is_dirty()) else {
                continue;
            };
            let crashes = found.guard.commit(found.reached());
            let (offset, snapshot) = found.progress.snapshot(found.id, &found.name, crashes, room);
            offsets.push(offset);
            snapshots.push(snapshot);
        }
        (offsets, snapshots)
    }

    /// Notes that the group has accepted these snapshots.
    pub(super) fn committed(&mut self, now_ms: i64, snapshots: &[Snapshot]) {
        for snapshot in snapshots {
            // A partition may have gone while its commit was in flight.
            let Some(found) = self.partitions.find_mut(snapshot.id) else {
                continue;
            };
            let partition = snapshot.id.index;
            found.progress.handle_committed(snapshot);
            if found.guard.handle_committed(snapshot.crashes) {
                self.guard_moved(now_ms, partition);
            }
            if self.is_at_most_once() {
                self.admit(now_ms, partition);
            }
            self.check_released(now_ms, partition);
        }
    }

    /// Notes that it is unknown whether the group has these snapshots.
    fn commit_failed(&mut self, snapshots: &[Snapshot]) {
        for snapshot in snapshots {
            if let Some(found) = self.partitions.find_mut(snapshot.id) {
                found.guard.handle_commit_failed();
            }
        }
    }

    fn is_source_dirty(&self, source: SourceId) -> bool {
        let at_most_once = self.is_at_most_once();
        let mut partitions = self.partitions.all().filter(|found| found.source == source);
        partitions.any(|found| found.is_dirty_for(at_most_once))
    }
}
