//! Positions in a partition, and the policies that lead to one.

/// The next record to read: its offset, and the leader epoch of the record before it if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub offset: i64,
    /// With it, a broker detects that records the consumer has read were truncated; without it there is no check.
    pub epoch: Option<i32>,
}

impl Position {
    pub fn at(offset: i64) -> Self {
        Self { offset, epoch: None }
    }
}

/// `auto.offset.reset`: the position without a committed offset, or after an offset that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetPolicy {
    Earliest,
    Latest,
    /// The first record that is not older than this.
    ByDuration {
        millis: i64,
    },
    /// The application decides: it gets an error.
    None,
}

impl ResetPolicy {
    /// The lookup at the leader; `None` if the application has to decide.
    pub fn target(self) -> Option<ResetTo> {
        match self {
            Self::Earliest => Some(ResetTo::Earliest),
            Self::Latest => Some(ResetTo::Latest),
            Self::ByDuration { millis } => Some(ResetTo::Ago { millis }),
            Self::None => None,
        }
    }
}

/// An offset that a leader can look up with `ListOffsets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTo {
    Earliest,
    Latest,
    Ago { millis: i64 },
}

/// The destination of a fetch for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchFrom {
    pub node: i32,
    /// The leader epoch as far as it is known, otherwise -1.
    pub leader_epoch: i32,
}
