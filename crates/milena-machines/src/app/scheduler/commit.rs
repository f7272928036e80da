//! Telling the group how far partitions are.

use super::{
    super::{
        Action, CommitOffset, CommitResult, CrashCounters, Delivery, Keyed, PartitionId, SourceId,
        commit_map::{self, Room},
    },
    Scheduler, Timer,
};

/// The waits before a commit that failed is tried again.
const FIRST_MS: i64 = 100;
const MAX_MS: i64 = 5_000;

/// A consumer, as far as commits go.
#[derive(Debug, Default)]
pub(super) struct Source {
    under_way: Option<Vec<Snapshot>>,
    /// Something should be committed as soon as nothing is under way.
    hurry: bool,
    /// Since when there is something to commit.
    dirty_since_ms: Option<i64>,
    last_activity_ms: i64,
    /// Records done since the last commit left.
    done: u64,
    failures: u32,
    /// At most once: records wait until more can be committed.
    pub(super) waits_for_room: bool,
}

impl Source {
    /// At most once: records wait, and nothing but the room for them.
    pub(super) fn may_go_on(&self) -> bool {
        self.waits_for_room && self.under_way.is_none() && self.failures == 0
    }
}

/// What was sent of a partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot {
    pub(super) id: PartitionId,
    pub(super) version: u64,
    pub(super) offset: i64,
    pub(super) cut: bool,
    pub(super) starts: CrashCounters,
}

impl<T: Keyed> Scheduler<T> {
    /// What became of [`Action::Commit`].
    pub fn handle_committed(&mut self, now_ms: i64, source: SourceId, result: CommitResult) {
        let Some(found) = self.sources.get_mut(usize::from(source.0)) else {
            return;
        };
        let Some(snapshots) = found.under_way.take() else {
            return;
        };
        match result {
            CommitResult::Ok => {
                found.failures = 0;
                self.totals.commits += 1;
                self.committed(now_ms, &snapshots);
            }
            CommitResult::MetadataTooLarge => {
                found.hurry = true;
                self.totals.commit_failures += 1;
                self.unheard(&snapshots);
                self.shrink_room();
            }
            CommitResult::Failed | CommitResult::Lost => {
                found.failures = found.failures.saturating_add(1);
                self.totals.commit_failures += 1;
                self.unheard(&snapshots);
                self.not_committed(now_ms, source, result == CommitResult::Lost);
            }
        }
        let backoff_ms = self.backoff_ms(source);
        let still_dirty = self.is_source_dirty(source);
        let Some(found) = self.sources.get_mut(usize::from(source.0)) else {
            return;
        };
        found.dirty_since_ms = still_dirty.then_some(now_ms);
        if !still_dirty {
            found.hurry = false;
            return self.timers.cancel(&Timer::Commit(source));
        }
        if backoff_ms > 0 {
            return self
                .timers
                .set(Timer::Commit(source), now_ms.saturating_add(backoff_ms));
        }
        if found.hurry || self.config.delivery == Delivery::AtMostOnce {
            return self.commit_now(now_ms, source);
        }
        self.timers
            .set(Timer::Commit(source), now_ms.saturating_add(self.config.commit.idle_ms));
    }

    /// Something of a source is done.
    pub(super) fn note_done(&mut self, now_ms: i64, source: SourceId, count: u64) {
        if self.config.delivery != Delivery::AtLeastOnce {
            return;
        }
        let commit = &self.config.commit;
        let Some(found) = self.sources.get_mut(usize::from(source.0)) else {
            return;
        };
        found.last_activity_ms = now_ms;
        found.done += count;
        if found.failures == 0 && commit.every_records.is_some_and(|every| found.done >= every) {
            return self.commit_now(now_ms, source);
        }
        if found.dirty_since_ms.is_none() {
            found.dirty_since_ms = Some(now_ms);
            let soon_ms = commit.interval_ms.min(commit.idle_ms);
            self.timers
                .set_no_later(Timer::Commit(source), now_ms.saturating_add(soon_ms));
        }
    }

    /// At most once: something waits to be committed before it is handed out.
    pub(super) fn note_staged(&mut self, now_ms: i64, source: SourceId) {
        let Some(found) = self.sources.get_mut(usize::from(source.0)) else {
            return;
        };
        if found.dirty_since_ms.is_none() {
            found.dirty_since_ms = Some(now_ms);
            // At the next look, so that what arrives together is committed together.
            self.timers.set_no_later(Timer::Commit(source), now_ms);
        }
    }

    /// Something waits to be told before more is handed out.
    pub(super) fn tell(&mut self, now_ms: i64, source: SourceId) {
        let Some(found) = self.sources.get_mut(usize::from(source.0)) else {
            return;
        };
        found.hurry = true;
        found.dirty_since_ms.get_or_insert(now_ms);
        // At the next look, so that what is told together is one commit; but not before a commit that failed may be
        // tried again.
        let wait_ms = if found.failures > 0 { FIRST_MS } else { 0 };
        self.timers
            .set_no_later(Timer::Commit(source), now_ms.saturating_add(wait_ms));
    }

    /// Commits if the interval is over, or nothing has happened for a while.
    pub(super) fn commit_if_due(&mut self, now_ms: i64, source: SourceId) {
        let commit = &self.config.commit;
        let Some(found) = self.sources.get(usize::from(source.0)) else {
            return;
        };
        let Some(since_ms) = found.dirty_since_ms else { return };
        let interval_ms = since_ms.saturating_add(commit.interval_ms);
        let idle_ms = found.last_activity_ms.saturating_add(commit.idle_ms);
        let due_ms = interval_ms.min(idle_ms);
        let waits = found.failures == 0 && !found.hurry && self.config.delivery == Delivery::AtLeastOnce;
        if waits && due_ms > now_ms {
            return self.timers.set(Timer::Commit(source), due_ms);
        }
        self.commit_now(now_ms, source);
    }

    /// Commits all that is new of a source, now or when what is under way has come back.
    pub(super) fn commit_now(&mut self, now_ms: i64, source: SourceId) {
        if self.config.delivery == Delivery::ExactlyOnce {
            if self.is_source_dirty(source) {
                self.want_barrier();
            }
            return;
        }
        let Some(found) = self.sources.get_mut(usize::from(source.0)) else {
            return;
        };
        if found.under_way.is_some() {
            found.hurry = true;
            return;
        }
        found.hurry = false;
        found.done = 0;
        let (offsets, snapshots) = if self.config.delivery == Delivery::AtMostOnce {
            self.snapshot_ahead(now_ms, source)
        } else {
            self.snapshot(|partition| partition == source)
        };
        let Some(found) = self.sources.get_mut(usize::from(source.0)) else {
            return;
        };
        if offsets.is_empty() {
            // Nothing is left of a commit that failed, so nothing waits for its next attempt.
            found.failures = 0;
            found.dirty_since_ms = None;
            return;
        }
        found.dirty_since_ms = Some(now_ms);
        found.under_way = Some(snapshots);
        self.actions.push_back(Action::Commit { source, offsets });
    }

    /// Offset and map of all that is new, each pair from the same moment.
    pub(super) fn snapshot(&mut self, concerned: impl Fn(SourceId) -> bool) -> (Vec<CommitOffset>, Vec<Snapshot>) {
        let (mut offsets, mut snapshots) = (vec![], vec![]);
        let room = self.room;
        for index in self.partitions.indexes() {
            let Some(partition) = self.at_mut(index) else { continue };
            if !concerned(partition.source) || !partition.is_dirty() {
                continue;
            }
            let leader_epoch = partition.tracker.leader_epoch();
            let (frontier, pending) = (partition.tracker.frontier(), partition.tracker.pending());
            let starts = partition.guard.starts(frontier, pending);
            let map = commit_map::encode_with(&partition.tracker, starts, room);
            let offset = frontier;
            snapshots.push(Snapshot {
                id: partition.id,
                version: partition.tracker.version(),
                offset,
                cut: map.cut,
                starts,
            });
            offsets.push(CommitOffset {
                id: partition.id,
                partition: partition.name.clone(),
                offset,
                leader_epoch,
                metadata: map.text,
            });
        }
        (offsets, snapshots)
    }

    /// The group knows so much.
    pub(super) fn committed(&mut self, now_ms: i64, snapshots: &[Snapshot]) {
        for snapshot in snapshots {
            let index = snapshot.id.index;
            let Some(partition) = self.at_mut(index).filter(|partition| partition.id == snapshot.id) else {
                continue;
            };
            partition.commit.version = snapshot.version;
            partition.commit.offset = Some(snapshot.offset);
            partition.commit.cut = snapshot.cut;
            partition.commit.done_since = 0;
            partition.commit.cleared = partition.commit.cleared.max(snapshot.offset);
            partition.commit.claimed = partition.commit.claimed.max(partition.commit.cleared);
            if partition.guard.heard(snapshot.starts) {
                self.guard_moved(now_ms, index);
            }
            if self.config.delivery == Delivery::AtMostOnce {
                self.admit(now_ms, index);
            }
            self.check_released(now_ms, index);
        }
    }

    /// Whether the group knows so much is not known.
    fn unheard(&mut self, snapshots: &[Snapshot]) {
        for snapshot in snapshots {
            let found = self.at_mut(snapshot.id.index);
            if let Some(partition) = found.filter(|partition| partition.id == snapshot.id) {
                partition.guard.unheard();
            }
        }
    }

    fn is_source_dirty(&self, source: SourceId) -> bool {
        let before = self.config.delivery == Delivery::AtMostOnce;
        self.all()
            .any(|partition| partition.source == source && partition.is_dirty_for(before))
    }

    /// Whether the group's last word about a partition is still to come.
    pub(super) fn is_under_way(&self, id: PartitionId, source: SourceId) -> bool {
        let source = self.sources.get(usize::from(source.0));
        let mut snapshots = source
            .and_then(|source| source.under_way.as_ref())
            .into_iter()
            .flatten();
        snapshots.any(|snapshot| snapshot.id == id)
    }

    fn backoff_ms(&mut self, source: SourceId) -> i64 {
        let failures = self
            .sources
            .get(usize::from(source.0))
            .map_or(0, |source| source.failures);
        if failures == 0 {
            return 0;
        }
        let doubled = 1_i64.checked_shl((failures - 1).min(20)).unwrap_or(1);
        let wait_ms = FIRST_MS.saturating_mul(doubled).min(MAX_MS);
        wait_ms + self.random.below(wait_ms.unsigned_abs() / 4 + 1) as i64
    }

    /// Brokers that are not Kafka may count bytes, or take less: first narrow characters, then half of them, then none.
    fn shrink_room(&mut self) {
        let Room { chars, wide } = self.room;
        self.room = match (wide, chars) {
            (true, _) => Room { chars, wide: false },
            (false, 64..) => Room { chars: chars / 2, wide },
            (false, _) => Room { chars: 0, wide },
        };
    }
}
