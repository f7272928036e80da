//! Whether commits have to wake the relay.
//!
//! Waking by the database costs every commit something, so commits do it only while the relay sleeps. It may sleep
//! after a read without rows. Then it reads once more, because a commit in between was not noticed.

/// State of the wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sleep {
    /// Nothing wakes the relay: it polls.
    #[default]
    Awake,
    /// The relay announces that it sleeps.
    FallingAsleep,
    /// Commits wake the relay. Before the first read without rows, it may have missed one.
    Asleep { has_read: bool },
    /// The relay must withdraw the announcement.
    Waking,
}
