//! States of a transaction.

/// The states as Kafka numbers and names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionState {
    /// The producer is known and has no transaction.
    Empty,
    Ongoing,
    /// Decided: markers are being written. The decision is final.
    PrepareCommit,
    PrepareAbort,
    /// All markers are written.
    CompleteCommit,
    CompleteAbort,
    /// Being removed. Kafka's coordinator passes through it in memory only.
    Dead,
    /// Being fenced, before the abort. Kafka's coordinator passes through it in memory only.
    PrepareEpochFence,
}

impl TransactionState {
    pub const ALL: [Self; 8] = [
        Self::Empty,
        Self::Ongoing,
        Self::PrepareCommit,
        Self::PrepareAbort,
        Self::CompleteCommit,
        Self::CompleteAbort,
        Self::Dead,
        Self::PrepareEpochFence,
    ];

    /// The number in stored records.
    pub fn id(self) -> i8 {
        match self {
            Self::Empty => 0,
            Self::Ongoing => 1,
            Self::PrepareCommit => 2,
            Self::PrepareAbort => 3,
            Self::CompleteCommit => 4,
            Self::CompleteAbort => 5,
            Self::Dead => 6,
            Self::PrepareEpochFence => 7,
        }
    }

    pub fn from_id(id: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.id() == id)
    }

    /// The name in tools and filters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::PrepareCommit => "PrepareCommit",
            Self::PrepareAbort => "PrepareAbort",
            Self::CompleteCommit => "CompleteCommit",
            Self::CompleteAbort => "CompleteAbort",
            Self::Dead => "Dead",
            Self::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }

    /// Whether a transaction may reach this state from `previous`.
    pub fn may_follow(self, previous: Self) -> bool {
        let at_rest = previous.is_at_rest();
        match self {
            Self::Empty | Self::Dead => at_rest,
            Self::Ongoing => at_rest || previous == Self::Ongoing,
            Self::PrepareCommit | Self::PrepareEpochFence => previous == Self::Ongoing,
            // Also without a transaction: a producer of version 2 may abort to be sure.
            Self::PrepareAbort => at_rest || matches!(previous, Self::Ongoing | Self::PrepareEpochFence),
            Self::CompleteCommit => previous == Self::PrepareCommit,
            Self::CompleteAbort => previous == Self::PrepareAbort,
        }
    }

    /// No transaction is open: the id may begin one, change its owner, or expire.
    pub fn is_at_rest(self) -> bool {
        matches!(self, Self::Empty | Self::CompleteCommit | Self::CompleteAbort)
    }

    /// The decision that is being carried out: whether to commit.
    pub fn prepared(self) -> Option<bool> {
        match self {
            Self::PrepareCommit => Some(true),
            Self::PrepareAbort => Some(false),
            _ => None,
        }
    }
}
