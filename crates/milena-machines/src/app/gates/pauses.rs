//! Pause reasons: a partition is fetched only while it has none.

/// A reason not to fetch a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum PauseReason {
    /// The buffers of all handlers together are full.
    Global,
    /// The buffer of its handler is full.
    Handler,
    /// Its share of the buffer is full.
    Partition,
    /// A breaker that its handler needs is open.
    Breaker,
    /// Its next record is not due.
    NotDue,
    /// One of its records waits for its next attempt, and the order is that of the partition.
    Retry,
    /// An output or failure record of it could not be published.
    Publish,
    /// The commit map has no room for more finished offsets.
    Map,
    /// It has stopped until an operator restarts it.
    Stopped,
    /// The user has paused it.
    User,
    Revoking,
    Shutdown,
}

impl PauseReason {
    pub const ALL: [Self; 12] = [
        Self::Global,
        Self::Handler,
        Self::Partition,
        Self::Breaker,
        Self::NotDue,
        Self::Retry,
        Self::Publish,
        Self::Map,
        Self::Stopped,
        Self::User,
        Self::Revoking,
        Self::Shutdown,
    ];

    fn bit(self) -> u16 {
        1 << self as u8
    }
}

/// A set of reasons, with the time since when each holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PauseSet {
    bits: u16,
    since_ms: [i64; PauseReason::ALL.len()],
}

/// The consequence of a change for the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    None,
    Pause,
    Resume,
}

impl PauseSet {
    /// Adds or removes a reason.
    pub fn set(&mut self, now_ms: i64, reason: PauseReason, holds: bool) -> Change {
        if self.contains(reason) == holds {
            return Change::None;
        }
        let was_empty = self.is_empty();
        self.bits ^= reason.bit();
        if let Some(since_ms) = self.since_ms.get_mut(reason as usize) {
            *since_ms = now_ms;
        }
        match (was_empty, self.is_empty()) {
            (true, _) => Change::Pause,
            (_, true) => Change::Resume,
            _ => Change::None,
        }
    }

    pub fn contains(&self, reason: PauseReason) -> bool {
        self.bits & reason.bit() != 0
    }

    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }

    /// The reasons, with the times since when they hold.
    pub fn iter(&self) -> impl Iterator<Item = (PauseReason, i64)> {
        PauseReason::ALL
            .into_iter()
            .zip(self.since_ms)
            .filter(|(reason, _)| self.contains(*reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_goes_on_only_when_no_reason_is_left() {
        let mut pauses = PauseSet::default();
        assert_eq!(pauses.set(1, PauseReason::Breaker, true), Change::Pause);
        assert_eq!(pauses.set(2, PauseReason::User, true), Change::None);
        assert_eq!(pauses.set(3, PauseReason::Breaker, true), Change::None);
        assert_eq!(
            pauses.iter().collect::<Vec<_>>(),
            [(PauseReason::Breaker, 1), (PauseReason::User, 2)]
        );
        assert_eq!(pauses.set(4, PauseReason::Breaker, false), Change::None);
        assert_eq!(pauses.set(5, PauseReason::Breaker, false), Change::None);
        assert_eq!(pauses.set(6, PauseReason::User, false), Change::Resume);
        assert!(pauses.is_empty());
    }
}
