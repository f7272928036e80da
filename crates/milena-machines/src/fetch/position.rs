//! A place in a partition, and how to come to one.

/// The next record to read: its offset, and the leader epoch of the record before it if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    pub offset: i64,
    /// With it a broker notices that what the consumer has read was cut off since; without it nobody looks.
    pub epoch: Option<i32>,
}

impl Position {
    pub fn at(offset: i64) -> Self {
        Self { offset, epoch: None }
    }
}

/// `auto.offset.reset`: where to begin without a committed offset, and where to go from an offset that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetPolicy {
    Earliest,
    Latest,
    /// At the first record that is not older than this.
    ByDuration {
        millis: i64,
    },
    /// The application decides: it gets an error.
    None,
}

impl ResetPolicy {
    /// What to ask the leader for; `None` if the application is to decide.
    pub fn target(self) -> Option<ResetTo> {
        match self {
            Self::Earliest => Some(ResetTo::Earliest),
            Self::Latest => Some(ResetTo::Latest),
            Self::ByDuration { millis } => Some(ResetTo::Ago { millis }),
            Self::None => None,
        }
    }
}

/// What a leader can be asked to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTo {
    Earliest,
    Latest,
    Ago { millis: i64 },
}

/// Where a fetch for a partition goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchFrom {
    pub node: i32,
    /// The leader's epoch as far as we know, -1 if not at all.
    pub leader_epoch: i32,
}
