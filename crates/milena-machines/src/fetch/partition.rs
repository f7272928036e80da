//! Fetch state of one assigned partition.

use super::{
    position::{Position, ResetTo},
    positions::{FetchError, PositionEpoch},
};

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) epoch: PositionEpoch,
    pub(super) state: State,
    pub(super) paused: bool,
    /// Neither fetched nor returned by poll: the listener has not run for it yet, or it is about to be revoked.
    pub(super) blocked: bool,
    /// A lookup of the position was requested although the partition is blocked.
    pub(super) is_position_requested: bool,
    /// The position of the application: the next record that poll returns.
    pub(super) consumed: Position,
    /// The next offset to fetch: ahead of `consumed` by the buffered records.
    pub(super) fetch: Position,
    pub(super) high_watermark: Option<i64>,
    pub(super) last_stable_offset: Option<i64>,
    pub(super) log_start_offset: Option<i64>,
    /// The preferred read replica that the leader named, and until when it is used.
    pub(super) replica: Option<(i32, i64)>,
    pub(super) leader_epoch: i32,
    /// The end of the current backoff; nothing is requested before it.
    pub(super) retry_at_ms: i64,
    /// The node whose fetch requests leave this partition out, and since when.
    pub(super) left_out: Option<(i32, i64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    NeedsCommitted {
        is_requested: bool,
    },
    NeedsReset {
        to: ResetTo,
        is_requested: bool,
    },
    Ready,
    /// Needs a decision of the application; every poll fails with the error until it seeks.
    Stuck(FetchError),
}

impl Partition {
    pub(super) fn new(epoch: PositionEpoch, state: State) -> Self {
        Self {
            epoch,
            state,
            paused: false,
            blocked: false,
            is_position_requested: false,
            consumed: Position::at(0),
            fetch: Position::at(0),
            high_watermark: None,
            last_stable_offset: None,
            log_start_offset: None,
            replica: None,
            leader_epoch: -1,
            retry_at_ms: i64::MIN,
            left_out: None,
        }
    }

    /// Whether the position is worth looking up.
    pub(super) fn needs_position(&self) -> bool {
        !self.blocked || self.is_position_requested
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Continues at `position`; records fetched for another position become stale.
    pub(super) fn move_to(&mut self, epoch: PositionEpoch, position: Position) {
        self.change(epoch, State::Ready);
        self.consumed = position;
        self.fetch = position;
    }

    pub(super) fn change(&mut self, epoch: PositionEpoch, state: State) {
        self.epoch = epoch;
        self.state = state;
        self.retry_at_ms = i64::MIN;
    }
}
