//! Breakers that several machines share, because their handlers need the same things.
//!
//! Each machine has copies of them. Who drives several machines lets one act at a time: it [enters](Scheduler::enter) with the
//! breakers as the last one left them, does what it has to do, and [leaves](Scheduler::leave). What holds then:
//!
//! - While a breaker is open no machine calls, and while it is half open all of them together have no more calls under way
//!   than it has probes.
//! - What became of a call counts once, and only if the breaker has not changed since it began, whoever made it.
//! - A machine that a breaker held back hears of it when that is over: [`Scheduler::leave`] says so.

use super::{
    super::{BreakerConfig, BreakerId, Keyed, breaker::Breaker},
    Scheduler,
};

/// How the breakers stand that several machines share: the first ones of each.
#[derive(Debug, Clone)]
pub struct SharedBreakers {
    breakers: Vec<Breaker>,
    /// The highest number of a call, so that those of all machines are in one order.
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

impl<T: Keyed> Scheduler<T> {
    /// From now on until [`leave`](Self::leave) no other machine acts. What others did to breakers is followed.
    pub fn enter(&mut self, now_ms: i64, shared: &SharedBreakers) {
        self.last_call = self.last_call.max(shared.last_call);
        for (place, theirs) in (0_u16..).zip(&shared.breakers) {
            let Some(own) = self.breakers.get_mut(usize::from(place)) else {
                return;
            };
            let (before, timeout) = (own.state(), own.poll_timeout());
            own.follow(theirs);
            if (own.state(), own.poll_timeout()) != (before, timeout) {
                self.follow_breaker(now_ms, BreakerId(place), before);
            }
        }
    }

    /// The others may act. If this says so they must: some of them may go on, or may not.
    #[must_use]
    pub fn leave(&mut self, shared: &mut SharedBreakers) -> bool {
        shared.last_call = self.last_call;
        let mut is_news = false;
        for (theirs, own) in shared.breakers.iter_mut().zip(&self.breakers) {
            is_news |= own.state() != theirs.state() || (theirs.available() == 0 && own.available() > 0);
            theirs.follow(own);
        }
        is_news
    }
}
