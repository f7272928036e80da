//! Circuit breakers.

/// What a breaker does with calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    Open,
    /// A few calls may go through to see whether all is well again.
    HalfOpen,
}
