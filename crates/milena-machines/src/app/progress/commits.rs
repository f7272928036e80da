//! When a source commits: after an interval, when idle, or at once when something waits for the commit.

use super::{
    super::{CommitConfig, CrashCounters, PartitionId, SourceId},
    commit_map::Room,
};
use crate::Random;

/// The backoff after a failed commit.
const FIRST_MS: i64 = 100;
const MAX_MS: i64 = 5_000;

/// The state of a partition that a commit carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) id: PartitionId,
    pub(crate) version: u64,
    pub(crate) offset: i64,
    /// The map could not tell all that is done.
    pub(crate) is_cut: bool,
    pub(crate) crashes: CrashCounters,
}

/// The time of the next commit of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommitTime {
    Now,
    /// Not before this, whatever was planned.
    At(i64),
    /// At this time, or sooner if that is planned already.
    NoLaterThan(i64),
    /// As planned already.
    Unchanged,
    /// There is nothing to commit.
    Never,
}

/// The commits of all sources. Each has at most one in flight.
#[derive(Debug)]
pub(crate) struct Commits {
    sources: Vec<SourceCommits>,
    room: Room,
    /// At most once: the partition that is committed first, so that each gets its share.
    turn: usize,
}

#[derive(Debug, Default)]
struct SourceCommits {
    in_flight: Option<Vec<Snapshot>>,
    /// The next commit follows as soon as none is in flight.
    is_urgent: bool,
    dirty_since_ms: Option<i64>,
    last_activity_ms: i64,
    /// The number of records that are done since the last commit was sent.
    done: u64,
    failures: u32,
    /// At most once: records wait until more can be committed.
    waits_for_room: bool,
}

impl Commits {
    pub(crate) fn new(metadata_chars: usize) -> Self {
        Self {
            sources: vec![],
            room: Room {
                chars: metadata_chars,
                wide: true,
            },
            turn: 0,
        }
    }

    /// The space for the map of a commit.
    pub(crate) fn room(&self) -> Room {
        self.room
    }

    /// The ids of all sources.
    pub(crate) fn sources(&self) -> impl Iterator<Item = SourceId> + use<> {
        (0..self.sources.len()).map(|number| SourceId(number as u16))
    }

    pub(crate) fn add_source(&mut self, source: SourceId) {
        while self.sources.len() <= usize::from(source.0) {
            self.sources.push(SourceCommits::default());
        }
    }

    /// At most once: the partition slot that comes first this time.
    pub(crate) fn next_turn(&mut self) -> usize {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// Notes that records of a source are done.
    #[inline]
    pub(crate) fn note_done(&mut self, now_ms: i64, source: SourceId, count: u64, config: &CommitConfig) -> CommitTime {
        let Some(found) = self.find(source) else {
            return CommitTime::Unchanged;
        };
        found.last_activity_ms = now_ms;
        found.done += count;
        if found.failures == 0 && config.every_records.is_some_and(|every| found.done >= every) {
            return CommitTime::Now;
        }
        if found.dirty_since_ms.is_some() {
            return CommitTime::Unchanged;
        }
        found.dirty_since_ms = Some(now_ms);
        let soon_ms = config.interval_ms.min(config.idle_ms);
        CommitTime::NoLaterThan(now_ms.saturating_add(soon_ms))
    }

    /// At most once: notes that records wait for the commit of their offsets.
    pub(crate) fn note_staged(&mut self, now_ms: i64, source: SourceId) -> CommitTime {
        match self.find(source) {
            Some(found) if found.dirty_since_ms.is_none() => {
                found.dirty_since_ms = Some(now_ms);
                // With the next timeout, so that records that arrive together are committed together.
                CommitTime::NoLaterThan(now_ms)
            }
            _ => CommitTime::Unchanged,
        }
    }

    /// Asks for a commit that announces something before more records are handed out.
    pub(crate) fn announce(&mut self, now_ms: i64, source: SourceId) -> CommitTime {
        let Some(found) = self.find(source) else {
            return CommitTime::Unchanged;
        };
        found.is_urgent = true;
        found.dirty_since_ms.get_or_insert(now_ms);
        // With the next timeout, so that one commit announces all; but not before the backoff of a failed commit.
        let wait_ms = if found.failures > 0 { FIRST_MS } else { 0 };
        CommitTime::NoLaterThan(now_ms.saturating_add(wait_ms))
    }

    /// The decision when the commit timer of a source fires. `may_wait` is whether interval and idle time count.
    pub(crate) fn handle_timeout(
        &self,
        now_ms: i64,
        source: SourceId,
        config: &CommitConfig,
        may_wait: bool,
    ) -> CommitTime {
        let Some(found) = self.sources.get(usize::from(source.0)) else {
            return CommitTime::Never;
        };
        let Some(since_ms) = found.dirty_since_ms else {
            return CommitTime::Never;
        };
        let interval_ms = since_ms.saturating_add(config.interval_ms);
        let idle_ms = found.last_activity_ms.saturating_add(config.idle_ms);
        let due_ms = interval_ms.min(idle_ms);
        if may_wait && found.failures == 0 && !found.is_urgent && due_ms > now_ms {
            return CommitTime::At(due_ms);
        }
        CommitTime::Now
    }

    /// Whether a commit can be sent now. If one is in flight, the next follows it.
    pub(crate) fn begin(&mut self, source: SourceId) -> bool {
        let Some(found) = self.find(source) else { return false };
        found.is_urgent = found.in_flight.is_some();
        if found.in_flight.is_none() {
            found.done = 0;
        }
        found.in_flight.is_none()
    }

    /// Notes what a commit carries; without anything none is sent.
    pub(crate) fn sent(&mut self, now_ms: i64, source: SourceId, snapshots: Vec<Snapshot>) {
        let Some(found) = self.find(source) else { return };
        if snapshots.is_empty() {
            // Nothing is left of a commit that failed, so nothing waits for its next attempt.
            found.failures = 0;
            found.dirty_since_ms = None;
        } else {
            found.dirty_since_ms = Some(now_ms);
            found.in_flight = Some(snapshots);
        }
    }

    /// The commit that has ended; `None` if none was in flight.
    pub(crate) fn take_in_flight(&mut self, source: SourceId) -> Option<Vec<Snapshot>> {
        self.find(source)?.in_flight.take()
    }

    pub(crate) fn succeeded(&mut self, source: SourceId) {
        if let Some(found) = self.find(source) {
            found.failures = 0;
        }
    }

    pub(crate) fn failed(&mut self, source: SourceId) {
        if let Some(found) = self.find(source) {
            found.failures = found.failures.saturating_add(1);
        }
    }

    /// Makes maps smaller and commits again. Brokers that are not Kafka may count bytes, or allow less: first narrow
    /// characters, then half of them, then none.
    pub(crate) fn metadata_too_large(&mut self, source: SourceId) {
        if let Some(found) = self.find(source) {
            found.is_urgent = true;
        }
        let Room { chars, wide } = self.room;
        self.room = match (wide, chars) {
            (true, _) => Room { chars, wide: false },
            (false, 64..) => Room { chars: chars / 2, wide },
            (false, _) => Room { chars: 0, wide },
        };
    }

    /// The decision after a commit has ended. `is_dirty` is whether there is something new, `idle_ms` how
    /// long that may wait.
    pub(crate) fn next_commit(
        &mut self,
        now_ms: i64,
        source: SourceId,
        is_dirty: bool,
        idle_ms: Option<i64>,
        random: &mut Random,
    ) -> CommitTime {
        let Some(found) = self.find(source) else {
            return CommitTime::Never;
        };
        let backoff_ms = backoff_ms(found.failures, random);
        found.dirty_since_ms = is_dirty.then_some(now_ms);
        if !is_dirty {
            found.is_urgent = false;
            return CommitTime::Never;
        }
        if backoff_ms > 0 {
            return CommitTime::At(now_ms.saturating_add(backoff_ms));
        }
        match idle_ms {
            Some(idle_ms) if !found.is_urgent => CommitTime::At(now_ms.saturating_add(idle_ms)),
            _ => CommitTime::Now,
        }
    }

    /// At most once: whether records wait for nothing but room to commit ahead of their handlers.
    pub(crate) fn may_commit_ahead(&self, source: SourceId) -> bool {
        self.sources.get(usize::from(source.0)).is_some_and(|found| {
            let is_idle = found.in_flight.is_none() && found.failures == 0;
            found.waits_for_room && is_idle
        })
    }

    pub(crate) fn set_waits_for_room(&mut self, source: SourceId, waits: bool) {
        if let Some(found) = self.find(source) {
            found.waits_for_room = waits;
        }
    }

    /// Whether a commit of a partition is in flight.
    pub(crate) fn is_in_flight(&self, id: PartitionId, source: SourceId) -> bool {
        let found = self.sources.get(usize::from(source.0));
        let snapshots = found.and_then(|found| found.in_flight.as_deref()).unwrap_or(&[]);
        snapshots.iter().any(|snapshot| snapshot.id == id)
    }

    fn find(&mut self, source: SourceId) -> Option<&mut SourceCommits> {
        self.sources.get_mut(usize::from(source.0))
    }
}

fn backoff_ms(failures: u32, random: &mut Random) -> i64 {
    if failures == 0 {
        return 0;
    }
    let doubled = 1_i64.checked_shl((failures - 1).min(20)).unwrap_or(1);
    let wait_ms = FIRST_MS.saturating_mul(doubled).min(MAX_MS);
    wait_ms + random.below(wait_ms.unsigned_abs() / 4 + 1) as i64
}
