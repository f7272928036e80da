//! Progress: the offsets that are done, and the commits that follow from them.
//!
//! [`tracker`] knows which offsets of a partition are done, [`commit_map`] writes those above the committed offset into the
//! metadata of the commit, and `commits` decides when a source commits.

pub mod commit_map;
pub(crate) mod commits;
pub mod tracker;

use super::{Assignment, CommitOffset, CrashCounters, MapError, PartitionId};
use crate::TopicPartition;
use commit_map::Room;
use commits::Snapshot;
use tracker::{CompletionResult, DeliveryResult, FinishedRange, Tracker};

/// The result of reading the metadata of the commit that a partition began from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRestore {
    /// There was none.
    None,
    /// This number of offsets is not handled again.
    Restored {
        finished: u64,
    },
    Ignored(MapError),
}

/// The state that an earlier owner of a partition has committed.
#[derive(Debug)]
pub(crate) struct Restored {
    pub(crate) finished: Vec<FinishedRange>,
    pub(crate) crashes: CrashCounters,
    pub(crate) result: MapRestore,
}

impl Restored {
    /// Reads the metadata, if the consumer begins at the offset that it was committed with, or above it: offsets that are
    /// stored with effects move on between two commits.
    pub(crate) fn read(assignment: &Assignment) -> Self {
        let empty = |result| Self {
            finished: vec![],
            crashes: CrashCounters::default(),
            result,
        };
        let committed = assignment.committed.as_ref();
        let Some(committed) = committed.filter(|committed| !committed.metadata.is_empty()) else {
            return empty(MapRestore::None);
        };
        let metadata = match commit_map::read(&committed.metadata, committed.offset) {
            Ok(metadata) if assignment.position >= committed.offset => {
                metadata.since(committed.offset, assignment.position)
            }
            Ok(_) => {
                return empty(MapRestore::Ignored(MapError::OtherBase {
                    made_for: committed.offset,
                    committed: assignment.position,
                }));
            }
            Err(error) => return empty(MapRestore::Ignored(error)),
        };
        let lengths = metadata.finished.iter().map(|range| range.end.abs_diff(range.start));
        let finished = lengths.sum();
        Self {
            finished: metadata.finished,
            crashes: metadata.crashes,
            result: MapRestore::Restored { finished },
        }
    }
}

/// Progress of one assignment of a partition.
#[derive(Debug)]
pub(crate) struct Progress {
    tracker: Tracker,
    restore: MapRestore,
    /// The version of the tracker that is committed.
    committed_version: u64,
    committed: Option<i64>,
    /// At most once: offsets below are committed and may be handed out.
    cleared: i64,
    /// At most once: like `cleared`, with commits that are in flight, or that failed and may have been accepted.
    claimed: i64,
    done_since_commit: u64,
    is_map_cut: bool,
    frontier: i64,
    moved_ms: i64,
    reported_ms: i64,
}

impl Progress {
    pub(crate) fn new(now_ms: i64, epoch: u32, assignment: &Assignment, restored: Restored) -> Self {
        let mut tracker = Tracker::new(epoch, assignment.position, restored.finished);
        tracker.begin_after(assignment.leader_epoch);
        Self {
            tracker,
            restore: restored.result,
            committed_version: 0,
            committed: assignment.committed.as_ref().map(|committed| committed.offset),
            cleared: assignment.position,
            claimed: assignment.position,
            done_since_commit: 0,
            is_map_cut: false,
            frontier: assignment.position,
            moved_ms: now_ms,
            reported_ms: now_ms,
        }
    }

    pub(crate) fn restore(&self) -> MapRestore {
        self.restore
    }

    /// The lowest unfinished offset.
    #[inline]
    pub(crate) fn frontier(&self) -> i64 {
        self.tracker.frontier()
    }

    /// The next offset that can be read.
    #[inline]
    pub(crate) fn end(&self) -> i64 {
        self.tracker.end()
    }

    /// The number of unfinished records.
    #[inline]
    pub(crate) fn pending(&self) -> u64 {
        self.tracker.pending()
    }

    pub(crate) fn version(&self) -> u64 {
        self.tracker.version()
    }

    pub(crate) fn committed(&self) -> Option<i64> {
        self.committed
    }

    pub(crate) fn cleared(&self) -> i64 {
        self.cleared
    }

    pub(crate) fn claimed(&self) -> i64 {
        self.claimed
    }

    /// Done records that would be handled again after a crash, or more if the map is cut.
    pub(crate) fn done_since_commit(&self) -> u64 {
        self.done_since_commit
    }

    pub(crate) fn is_map_cut(&self) -> bool {
        self.is_map_cut
    }

    /// The time when the frontier last moved, or the first record of an idle partition arrived.
    pub(crate) fn moved_ms(&self) -> i64 {
        self.moved_ms
    }

    #[inline]
    pub(crate) fn set_moved(&mut self, now_ms: i64) {
        self.moved_ms = now_ms;
    }

    #[inline]
    pub(crate) fn deliver(&mut self, offset: i64, leader_epoch: Option<i32>, bytes: u64) -> DeliveryResult {
        self.tracker.deliver(offset, leader_epoch, bytes)
    }

    #[inline]
    pub(crate) fn deliver_run(&mut self, offset: i64, count: u32, leader_epoch: Option<i32>, bytes: u64) -> bool {
        self.tracker.deliver_run(offset, count, leader_epoch, bytes)
    }

    /// Offsets below `next` that were not delivered do not exist.
    pub(crate) fn advance(&mut self, next: i64) {
        self.tracker.advance(next);
    }

    /// Marks a record, or the records of a run, as done.
    #[inline]
    pub(crate) fn complete(&mut self, now_ms: i64, id: PartitionId, offset: i64, count: u32, bytes: u64) {
        if count > 1 {
            self.done_since_commit += self.tracker.complete_run(id.epoch, offset, count, bytes);
        } else if self.tracker.complete(id.epoch, offset, bytes) == CompletionResult::Done {
            self.done_since_commit += 1;
        }
        let frontier = self.tracker.frontier();
        if frontier != self.frontier {
            self.frontier = frontier;
            self.moved_ms = now_ms;
        }
    }

    pub(crate) fn is_done(&self, offset: i64) -> bool {
        self.tracker.is_done(offset)
    }

    /// Whether the group does not know all that is done.
    pub(crate) fn is_dirty(&self) -> bool {
        self.tracker.version() != self.committed_version
    }

    /// At most once: whether offsets wait to be committed before their records are handled.
    pub(crate) fn is_uncleared(&self) -> bool {
        self.tracker.end() > self.cleared
    }

    /// At most once: includes everything below an offset in the next commit.
    pub(crate) fn claim(&mut self, offset: i64) {
        self.claimed = offset;
    }

    /// Takes the offset and the map of one moment for a commit.
    pub(crate) fn snapshot(
        &mut self,
        id: PartitionId,
        name: &TopicPartition,
        crashes: CrashCounters,
        room: Room,
    ) -> (CommitOffset, Snapshot) {
        let map = commit_map::encode_with(&self.tracker, crashes, room);
        let offset = self.tracker.frontier();
        let commit = CommitOffset {
            id,
            partition: name.clone(),
            offset,
            leader_epoch: self.tracker.leader_epoch(),
            metadata: map.text,
        };
        let snapshot = Snapshot {
            id,
            version: self.tracker.version(),
            offset,
            is_cut: map.cut,
            crashes,
        };
        (commit, snapshot)
    }

    /// Notes that the group has accepted a snapshot.
    pub(crate) fn handle_committed(&mut self, snapshot: &Snapshot) {
        self.committed_version = snapshot.version;
        self.committed = Some(snapshot.offset);
        self.is_map_cut = snapshot.is_cut;
        self.done_since_commit = 0;
        self.cleared = self.cleared.max(snapshot.offset);
        self.claimed = self.claimed.max(self.cleared);
    }

    /// Whether the frontier has stood for `stall_ms` and this was not reported for as long.
    pub(crate) fn is_stall_due(&self, now_ms: i64, stall_ms: i64) -> bool {
        now_ms.saturating_sub(self.moved_ms) >= stall_ms && now_ms.saturating_sub(self.reported_ms) >= stall_ms
    }

    pub(crate) fn set_reported(&mut self, now_ms: i64) {
        self.reported_ms = now_ms;
    }
}
