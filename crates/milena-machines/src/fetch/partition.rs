//! One partition that a consumer has.

use super::{
    position::{Position, ResetTo},
    positions::{FetchError, PositionEpoch},
};

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) epoch: PositionEpoch,
    pub(super) state: State,
    pub(super) paused: bool,
    /// Neither read nor handed out: the application has not been told that it has it, or is about to lose it.
    pub(super) blocked: bool,
    /// Somebody asks for its place, although it is blocked.
    pub(super) is_requested: bool,
    /// The next record to hand out.
    pub(super) consumed: Position,
    /// The next record to ask for: ahead of `consumed` by what is buffered.
    pub(super) fetch: Position,
    pub(super) high_watermark: Option<i64>,
    pub(super) last_stable_offset: Option<i64>,
    pub(super) log_start_offset: Option<i64>,
    /// A follower that the leader has named, and until when we believe it.
    pub(super) replica: Option<(i32, i64)>,
    pub(super) leader_epoch: i32,
    /// Nothing is asked before this.
    pub(super) retry_at_ms: i64,
    /// The node that was asked for others without it, and since when.
    pub(super) left_out: Option<(i32, i64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    NeedsCommitted {
        asked: bool,
    },
    NeedsReset {
        to: ResetTo,
        asked: bool,
    },
    Ready,
    /// Something that only the application can decide; it is told with every poll until it seeks.
    Stuck(FetchError),
}

impl Partition {
    pub(super) fn new(epoch: PositionEpoch, state: State) -> Self {
        Self {
            epoch,
            state,
            paused: false,
            blocked: false,
            is_requested: false,
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

    /// Whether it is worth finding out where it begins.
    pub(super) fn needs_place(&self) -> bool {
        !self.blocked || self.is_requested
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Reads on from here; whatever was fetched for another place is stale.
    pub(super) fn place(&mut self, epoch: PositionEpoch, position: Position) {
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
