//! One partition that a consumer has.

use super::{
    position::{Position, ResetTo},
    positions::{FetchError, Turn},
};

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) turn: Turn,
    pub(super) state: State,
    pub(super) paused: bool,
    /// Neither read nor handed out: the application has not been told that it has it, or is about to lose it.
    pub(super) held: bool,
    /// Somebody asks for its place, although it is held.
    pub(super) asked_for: bool,
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
    pub(super) fn new(turn: Turn, state: State) -> Self {
        Self {
            turn,
            state,
            paused: false,
            held: false,
            asked_for: false,
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
        !self.held || self.asked_for
    }

    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Reads on from here; whatever was fetched for another place is stale.
    pub(super) fn place(&mut self, turn: Turn, position: Position) {
        self.change(turn, State::Ready);
        self.consumed = position;
        self.fetch = position;
    }

    pub(super) fn change(&mut self, turn: Turn, state: State) {
        self.turn = turn;
        self.state = state;
        self.retry_at_ms = i64::MIN;
    }
}
