//! Circuit breakers: stop calls to a dependency that fails, and probe it after a while.

use std::collections::VecDeque;

use crate::app::{BreakerAttempts, BreakerConfig, WhenOpen};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    Closed,
    Open,
    /// A few calls probe whether the dependency has recovered.
    HalfOpen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResult {
    Success,
    Failure,
    /// Nothing is known about the dependency: the call failed for another reason, or was cancelled.
    Unknown,
}

#[derive(Debug, Clone)]
pub struct Breaker {
    config: BreakerConfig,
    phase: Phase,
    /// The highest number of a permitted call.
    last_call: u64,
    /// Calls below this began before the last change.
    first_call: u64,
    /// The last calls: `true` for a failure.
    window: VecDeque<bool>,
    failures: u32,
    /// How often it has opened since it was last closed.
    opened_in_row: u32,
    opened: u64,
    not_permitted: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed,
    Open { until_ms: i64 },
    HalfOpen { given: u32, succeeded: u32 },
}

impl Breaker {
    pub fn new(config: BreakerConfig) -> Self {
        Self {
            config,
            phase: Phase::Closed,
            last_call: 0,
            first_call: 0,
            window: VecDeque::new(),
            failures: 0,
            opened_in_row: 0,
            opened: 0,
            not_permitted: 0,
        }
    }

    pub fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Whether it is open and rejects records instead of letting them wait.
    pub fn rejects(&self) -> bool {
        self.state() == BreakerState::Open && self.config.when_open == WhenOpen::DeadLetter
    }

    /// Whether a call that fails because of the dependency is never an attempt of its record.
    pub fn spares_attempts(&self) -> bool {
        self.config.attempts == BreakerAttempts::Never
    }

    /// The number of calls that may begin now.
    pub fn available(&self) -> u32 {
        match self.phase {
            Phase::Closed => u32::MAX,
            Phase::Open { .. } => 0,
            Phase::HalfOpen { given, .. } => self.config.probes.saturating_sub(given),
        }
    }

    /// Permits a call and counts it in one step, so that no permit is given twice. Later calls have higher numbers, from 1
    /// on.
    pub fn permit(&mut self, call: u64) -> bool {
        if self.available() == 0 {
            self.not_permitted += 1;
            return false;
        }
        if let Phase::HalfOpen { given, .. } = &mut self.phase {
            *given += 1;
        }
        self.last_call = self.last_call.max(call);
        true
    }

    /// Counts a call that would have been made.
    pub fn note_not_permitted(&mut self) {
        self.not_permitted += 1;
    }

    /// Counts the result of a permitted call, if the breaker has not changed since the call began.
    pub fn record(&mut self, now_ms: i64, call: u64, result: CallResult) {
        if call < self.first_call {
            return;
        }
        match (&mut self.phase, result) {
            (Phase::HalfOpen { given, .. }, CallResult::Unknown) => *given = given.saturating_sub(1),
            (Phase::HalfOpen { .. }, CallResult::Failure) => self.open(now_ms),
            (Phase::HalfOpen { succeeded, .. }, CallResult::Success) => {
                *succeeded += 1;
                if *succeeded >= self.config.probes {
                    self.opened_in_row = 0;
                    self.change(Phase::Closed);
                }
            }
            (Phase::Closed, CallResult::Success | CallResult::Failure) => {
                self.count(result == CallResult::Failure);
                let calls = self.window.len() as u64;
                let fails = u64::from(self.failures) * 100 >= u64::from(self.config.failure_percent) * calls;
                if calls >= u64::from(self.config.calls_min.max(1)) && fails {
                    self.open(now_ms);
                }
            }
            (Phase::Closed | Phase::Open { .. }, _) => {}
        }
    }

    /// Takes over the state of another breaker with the same configuration.
    pub fn follow(&mut self, other: &Self) {
        let Self {
            config: _,
            phase,
            last_call,
            first_call,
            window,
            failures,
            opened_in_row,
            opened,
            not_permitted,
        } = other;
        // Reuses the allocation.
        self.window.clone_from(window);
        (self.phase, self.failures) = (*phase, *failures);
        (self.last_call, self.first_call) = (*last_call, *first_call);
        (self.opened_in_row, self.opened, self.not_permitted) = (*opened_in_row, *opened, *not_permitted);
    }

    /// The time when it probes its dependency.
    pub fn poll_timeout(&self) -> Option<i64> {
        match self.phase {
            Phase::Open { until_ms } => Some(until_ms),
            _ => None,
        }
    }

    pub fn handle_timeout(&mut self, now_ms: i64) {
        if self.poll_timeout().is_some_and(|until_ms| until_ms <= now_ms) {
            self.change(Phase::HalfOpen { given: 0, succeeded: 0 });
        }
    }

    /// Failures in the window in percent; `None` without calls.
    pub fn failure_percent(&self) -> Option<u32> {
        (self.failures * 100).checked_div(self.window.len() as u32)
    }

    pub fn not_permitted(&self) -> u64 {
        self.not_permitted
    }

    /// How often it has opened.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    fn count(&mut self, failed: bool) {
        self.window.push_back(failed);
        self.failures += u32::from(failed);
        if self.window.len() > self.config.window as usize {
            self.failures -= u32::from(self.window.pop_front() == Some(true));
        }
    }

    fn open(&mut self, now_ms: i64) {
        let doubled = 1_i64.checked_shl(self.opened_in_row.min(40)).unwrap_or(1);
        let longest = self.config.open_ms_max.max(self.config.open_ms);
        let open_ms = self.config.open_ms.saturating_mul(doubled).min(longest);
        self.opened_in_row = self.opened_in_row.saturating_add(1);
        self.opened += 1;
        self.change(Phase::Open {
            until_ms: now_ms.saturating_add(open_ms),
        });
    }

    fn change(&mut self, phase: Phase) {
        self.phase = phase;
        self.first_call = self.last_call + 1;
        self.window.clear();
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaker() -> Breaker {
        Breaker::new(BreakerConfig {
            failure_percent: 50,
            window: 10,
            calls_min: 4,
            open_ms: 1_000,
            open_ms_max: 3_000,
            probes: 2,
            when_open: WhenOpen::Pause,
            attempts: BreakerAttempts::WhileClosed,
        })
    }

    fn begin(breaker: &mut Breaker) -> u64 {
        let call = breaker.last_call + 1;
        assert!(breaker.permit(call));
        call
    }

    fn call(breaker: &mut Breaker, now_ms: i64, result: CallResult) {
        let call = begin(breaker);
        breaker.record(now_ms, call, result);
    }

    fn opened(now_ms: i64) -> Breaker {
        let mut breaker = breaker();
        for _ in 0..4 {
            call(&mut breaker, now_ms, CallResult::Failure);
        }
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker
    }

    #[test]
    fn it_opens_at_the_share_of_failures_and_not_with_few_calls() {
        let mut breaker = breaker();
        for _ in 0..3 {
            call(&mut breaker, 0, CallResult::Failure);
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        call(&mut breaker, 0, CallResult::Success);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(!breaker.permit(100));
        assert_eq!((breaker.opened(), breaker.not_permitted()), (1, 1));
    }

    #[test]
    fn only_the_window_counts() {
        let mut breaker = breaker();
        for _ in 0..10 {
            call(&mut breaker, 0, CallResult::Success);
        }
        for _ in 0..4 {
            call(&mut breaker, 0, CallResult::Failure);
        }
        assert_eq!(
            (breaker.state(), breaker.failure_percent()),
            (BreakerState::Closed, Some(40))
        );
        call(&mut breaker, 0, CallResult::Failure);
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn what_says_nothing_about_the_dependency_does_not_count() {
        let mut breaker = breaker();
        for _ in 0..100 {
            call(&mut breaker, 0, CallResult::Unknown);
        }
        assert_eq!(
            (breaker.state(), breaker.failure_percent()),
            (BreakerState::Closed, None)
        );
    }

    #[test]
    fn half_open_gives_so_many_probes_and_no_more() {
        let mut breaker = opened(0);
        breaker.handle_timeout(999);
        assert_eq!(breaker.state(), BreakerState::Open);
        breaker.handle_timeout(1_000);
        let probes = [begin(&mut breaker), begin(&mut breaker)];
        assert!(!breaker.permit(100));
        // One of them has no result, so another may probe.
        breaker.record(1_000, probes[0], CallResult::Unknown);
        assert_eq!(breaker.available(), 1);
        call(&mut breaker, 1_000, CallResult::Success);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        breaker.record(1_000, probes[1], CallResult::Success);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn it_stays_open_twice_as_long_each_time_up_to_the_longest() {
        let mut breaker = opened(0);
        for (at, until) in [(1_000, 3_000), (3_000, 6_000), (6_000, 9_000)] {
            breaker.handle_timeout(at);
            call(&mut breaker, at, CallResult::Failure);
            assert_eq!(breaker.poll_timeout(), Some(until));
        }
        breaker.handle_timeout(9_000);
        call(&mut breaker, 9_000, CallResult::Success);
        call(&mut breaker, 9_000, CallResult::Success);
        for _ in 0..4 {
            call(&mut breaker, 9_000, CallResult::Failure);
        }
        assert_eq!(breaker.poll_timeout(), Some(10_000));
    }

    #[test]
    fn results_from_before_a_change_are_ignored() {
        let mut breaker = breaker();
        let old = begin(&mut breaker);
        for _ in 0..4 {
            call(&mut breaker, 0, CallResult::Failure);
        }
        breaker.handle_timeout(1_000);
        breaker.record(1_000, old, CallResult::Failure);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        breaker.record(1_000, old, CallResult::Unknown);
        assert_eq!(breaker.available(), 2);
        breaker.record(1_000, old, CallResult::Success);
        call(&mut breaker, 1_000, CallResult::Success);
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
    }
}
