//! A partition that is ours.

use std::collections::VecDeque;

use super::super::{
    HandlerId, MapError, PartitionId, Role, SourceId, StopReason,
    crash_guard::Guard,
    dlq_limit::DlqLimit,
    pauses::{PauseReason, PauseSet},
    queues::Gauge,
    tracker::Tracker,
};
use crate::TopicPartition;
use crate::app::ids::RecordIndex;

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) id: PartitionId,
    pub(super) name: TopicPartition,
    pub(super) source: SourceId,
    pub(super) handler: HandlerId,
    pub(super) role: Role,
    pub(super) tracker: Tracker,
    pub(super) verdict: MapRestore,
    pub(super) guard: Guard,
    pub(super) gauge: Gauge,
    pub(super) pauses: PauseSet,
    /// Records that may not be in line yet, in their order.
    pub(super) staged: VecDeque<RecordIndex>,
    pub(super) dlq_limit: Option<DlqLimit>,
    pub(super) phase: Phase,
    pub(super) stopped: Option<StopReason>,
    /// How many of its records could not be published.
    pub(super) unpublished: u32,
    /// How many of its records wait to be tried again.
    pub(super) parked: u32,
    pub(super) commit: CommitState,
    pub(super) progress: Progress,
}

/// What the group knows of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommitState {
    /// The tracker's version that is committed.
    pub(super) version: u64,
    pub(super) offset: Option<i64>,
    /// At most once: what lies below is committed, and may be handed out.
    pub(super) cleared: i64,
    /// And up to here with commits that are under way, or that failed and may have been accepted all the same.
    pub(super) claimed: i64,
    /// How many records are done since then.
    pub(super) done_since: u64,
    /// The last map could not tell all.
    pub(super) cut: bool,
    /// Records were handed out since the last transaction.
    pub(super) touched: bool,
}

/// Whether it moves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    pub(super) frontier: i64,
    pub(super) moved_ms: i64,
    pub(super) reported_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Active,
    /// It is to be given back: its handlers end what they have.
    Draining,
    /// The last commit.
    Committing,
}

/// What became of the metadata of the commit that a partition began from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapRestore {
    /// There was none.
    None,
    /// So many offsets are not done again.
    Restored { finished: u64 },
    /// It was ignored.
    Ignored(MapError),
}

impl Partition {
    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    pub(super) fn is_draining(&self) -> bool {
        self.phase == Phase::Draining
    }

    /// Whether a reason concerns it. What is full waits for what is held, so that must not wait for what is full.
    pub(super) fn is_held_by(&self, reason: PauseReason) -> bool {
        self.role != Role::HeldKeys || !matches!(reason, PauseReason::Global | PauseReason::Handler)
    }

    /// So too, but at most once is committed before it is handled.
    pub(super) fn is_dirty_for(&self, before: bool) -> bool {
        if before {
            self.is_active() && self.tracker.end() > self.commit.cleared
        } else {
            self.is_dirty()
        }
    }

    /// There is something that the group does not know.
    pub(super) fn is_dirty(&self) -> bool {
        self.tracker.version() != self.commit.version || self.guard.is_dirty()
    }
}
