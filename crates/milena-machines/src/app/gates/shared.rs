//! Circuit breakers that several schedulers share, because their handlers need the same dependencies.
//!
//! Each scheduler has copies of them. The driver of several schedulers lets one act at a time: it
//! [enters] with the breakers as the last one left them, feeds its events, and
//! [leaves]. Then these hold:
//!
//! - While a breaker is open no scheduler calls, and while it is half open all of them together have no more calls in
//!   flight than it has probes.
//! - The outcome of a call counts once, and only if the breaker has not changed since the call began.
//! - A scheduler that a breaker held back is told when that is over: the return value of [`Scheduler::leave`].
//!
//! [`Scheduler::leave`]: crate::app::Scheduler::leave
//! [leaves]: crate::app::Scheduler::leave
//! [enters]: crate::app::Scheduler::enter

use super::{Gates, breaker::Breaker};
use crate::app::{BreakerConfig, BreakerId, BreakerState};

/// The state of breakers that several schedulers share: the first ones of each.
#[derive(Debug, Clone)]
pub struct SharedBreakers {
    breakers: Vec<Breaker>,
    /// The highest number of a call, so that the calls of all schedulers are in one order.
    last_call: u64,
}

impl SharedBreakers {
    pub fn new(configs: impl IntoIterator<Item = BreakerConfig>) -> Self {
        Self {
            breakers: configs.into_iter().map(Breaker::new).collect(),
            last_call: 0,
        }
    }

    pub fn breaker(&self, breaker: BreakerId) -> Option<&Breaker> {
        self.breakers.get(usize::from(breaker.0))
    }
}

impl Gates {
    /// Takes over the shared state. Returns the breakers that differ now, with the states they had.
    pub(crate) fn follow(&mut self, shared: &SharedBreakers) -> Vec<(BreakerId, BreakerState)> {
        self.last_call = self.last_call.max(shared.last_call);
        let mut changed = vec![];
        for (number, (own, theirs)) in (0_u16..).zip(self.breakers.iter_mut().zip(&shared.breakers)) {
            let (before, timeout) = (own.state(), own.poll_timeout());
            own.follow(theirs);
            if (own.state(), own.poll_timeout()) != (before, timeout) {
                changed.push((BreakerId(number), before));
            }
        }
        changed
    }

    /// Stores the state for the other schedulers. Returns whether one of them may have something to do now.
    pub(crate) fn store(&self, shared: &mut SharedBreakers) -> bool {
        shared.last_call = self.last_call;
        let mut is_changed = false;
        for (theirs, own) in shared.breakers.iter_mut().zip(&self.breakers) {
            is_changed |= own.state() != theirs.state() || (theirs.available() == 0 && own.available() > 0);
            theirs.follow(own);
        }
        is_changed
    }
}
