//! Outages: which failures are logged, and when.
//!
//! [`Outages`] has no clock and writes nothing. Its caller logs the returned warnings, so that the same rules hold for
//! brokers, metadata, coordinators, topics and commits:
//!
//! - The first failure of a cause is a warning at once, or after its grace period.
//! - Later failures of the same subject and cause are counted, and are a warning again after [`WARN_INTERVAL_MS`].
//! - A success ends the outage. It is logged if the outage was.

use std::collections::BTreeMap;

/// The minimum time between two warnings about the same subject and cause.
pub(crate) const WARN_INTERVAL_MS: i64 = 30_000;

/// The outages of several subjects, such as brokers. A subject can fail for several causes.
#[derive(Debug)]
pub(crate) struct Outages<S, C> {
    subjects: BTreeMap<S, Outage<C>>,
}

/// One failure, as its caller reports it.
#[derive(Debug, Clone)]
pub(crate) struct Failure<C> {
    pub(crate) cause: C,
    pub(crate) reason: String,
    /// The minimum duration of an outage before its first warning.
    pub(crate) grace_ms: i64,
}

/// A warning that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Warning {
    /// Failures of this cause since the last warning about it, including this one.
    pub(crate) failures: u64,
    /// The time since the first failure of the outage.
    pub(crate) for_ms: i64,
}

/// The end of an outage that was logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recovery {
    pub(crate) failures: u64,
    pub(crate) for_ms: i64,
}

/// A subject that fails now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failing<C> {
    pub(crate) cause: C,
    pub(crate) reason: String,
    pub(crate) failures: u64,
    pub(crate) since_ms: i64,
}

#[derive(Debug)]
struct Outage<C> {
    /// `None` after a success.
    failing: Option<Failing<C>>,
    /// There was a warning since the last recovery.
    is_announced: bool,
    causes: BTreeMap<C, Line>,
}

/// The warnings about one cause.
#[derive(Debug, Default)]
struct Line {
    written_ms: Option<i64>,
    unwritten: u64,
}

impl<S, C> Default for Outages<S, C> {
    fn default() -> Self {
        Self {
            subjects: BTreeMap::new(),
        }
    }
}

impl<S: Ord + Clone, C: Ord + Clone> Outages<S, C> {
    /// Records a failure. Returns the warning that is due, if any.
    pub(crate) fn handle_failure(&mut self, now_ms: i64, subject: &S, failure: Failure<C>) -> Option<Warning> {
        let outage = self.subjects.entry(subject.clone()).or_insert_with(|| Outage {
            failing: None,
            is_announced: false,
            causes: BTreeMap::new(),
        });
        let Failure {
            cause,
            reason,
            grace_ms,
        } = failure;
        let line = outage.causes.entry(cause.clone()).or_default();
        line.unwritten += 1;
        let (failures, since_ms) = match &outage.failing {
            Some(failing) => (failing.failures + 1, failing.since_ms),
            None => (1, now_ms),
        };
        outage.failing = Some(Failing {
            cause,
            reason,
            failures,
            since_ms,
        });
        let for_ms = now_ms - since_ms;
        let is_recent = line
            .written_ms
            .is_some_and(|written_ms| now_ms - written_ms < WARN_INTERVAL_MS);
        if for_ms < grace_ms || is_recent {
            return None;
        }
        line.written_ms = Some(now_ms);
        outage.is_announced = true;
        Some(Warning {
            failures: std::mem::take(&mut line.unwritten),
            for_ms,
        })
    }

    /// Records a success. Returns the recovery to log, if there was a warning.
    pub(crate) fn handle_success(&mut self, now_ms: i64, subject: &S) -> Option<Recovery> {
        let outage = self.subjects.get_mut(subject)?;
        // Recent warnings are kept, so that a subject that keeps failing and recovering is limited too.
        outage.causes.retain(|_, line| {
            line.written_ms
                .is_some_and(|written_ms| now_ms - written_ms < WARN_INTERVAL_MS)
        });
        let failing = outage.failing.take();
        let is_announced = std::mem::take(&mut outage.is_announced);
        if outage.causes.is_empty() {
            self.subjects.remove(subject);
        }
        let failing = failing.filter(|_| is_announced)?;
        Some(Recovery {
            failures: failing.failures,
            for_ms: now_ms - failing.since_ms,
        })
    }

    /// All subjects that fail now.
    pub(crate) fn all_failing(&self) -> impl Iterator<Item = (&S, &Failing<C>)> {
        let failing = |(subject, outage)| Some((subject, Outage::<C>::failing(outage)?));
        self.subjects.iter().filter_map(failing)
    }

    /// Removes subjects that are no longer relevant.
    pub(crate) fn retain(&mut self, keep: impl Fn(&S) -> bool) {
        self.subjects.retain(|subject, _| keep(subject));
    }
}

impl<C> Outage<C> {
    fn failing(&self) -> Option<&Failing<C>> {
        self.failing.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(cause: &'static str) -> Failure<&'static str> {
        Failure {
            cause,
            reason: format!("it was {cause}"),
            grace_ms: 0,
        }
    }

    #[test]
    fn the_first_failure_is_a_warning_and_the_next_ones_are_counted() {
        let mut outages = Outages::default();
        let first = outages.handle_failure(1_000, &"b1", failure("refused"));
        assert_eq!(first, Some(Warning { failures: 1, for_ms: 0 }));
        for now_ms in 1_001..1_100 {
            assert_eq!(outages.handle_failure(now_ms, &"b1", failure("refused")), None);
        }
        let later = outages.handle_failure(1_000 + WARN_INTERVAL_MS, &"b1", failure("refused"));
        assert_eq!(
            later,
            Some(Warning {
                failures: 100,
                for_ms: WARN_INTERVAL_MS
            })
        );
    }

    #[test]
    fn subjects_and_causes_do_not_hide_each_other() {
        let mut outages = Outages::default();
        assert!(outages.handle_failure(0, &"b1", failure("refused")).is_some());
        assert!(outages.handle_failure(0, &"b2", failure("refused")).is_some());
        assert!(outages.handle_failure(0, &"b1", failure("timed out")).is_some());
        let failing: Vec<_> = outages
            .all_failing()
            .map(|(name, failing)| (*name, failing.cause))
            .collect();
        assert_eq!(failing, [("b1", "timed out"), ("b2", "refused")]);
        let (_, first) = outages.all_failing().next().unwrap();
        assert_eq!(first.failures, 2);
    }

    #[test]
    fn a_recovery_is_reported_once_and_only_after_a_warning() {
        let mut outages = Outages::default();
        assert_eq!(outages.handle_success(0, &"b1"), None);
        outages.handle_failure(100, &"b1", failure("refused"));
        outages.handle_failure(200, &"b1", failure("refused"));
        let recovery = Recovery {
            failures: 2,
            for_ms: 400,
        };
        assert_eq!(outages.handle_success(500, &"b1"), Some(recovery));
        assert_eq!(outages.handle_success(600, &"b1"), None);
        assert_eq!(outages.all_failing().count(), 0);
    }

    #[test]
    fn a_subject_that_fails_and_succeeds_in_turns_is_limited_too() {
        let mut outages = Outages::default();
        let mut lines = 0;
        for now_ms in (0..WARN_INTERVAL_MS).step_by(100) {
            lines += usize::from(outages.handle_failure(now_ms, &"b1", failure("lost")).is_some());
            lines += usize::from(outages.handle_success(now_ms + 50, &"b1").is_some());
        }
        assert_eq!(lines, 2, "one warning and its recovery");
        let next = outages.handle_failure(WARN_INTERVAL_MS, &"b1", failure("lost"));
        assert_eq!(next.unwrap().failures, 300);
    }

    #[test]
    fn within_its_grace_an_outage_is_silent() {
        let mut outages = Outages::default();
        let patient = || Failure {
            grace_ms: 5_000,
            ..failure("not yet")
        };
        assert_eq!(outages.handle_failure(0, &"group", patient()), None);
        assert_eq!(outages.handle_success(100, &"group"), None);
        assert_eq!(outages.handle_failure(1_000, &"group", patient()), None);
        assert_eq!(outages.handle_failure(5_999, &"group", patient()), None);
        let warning = outages.handle_failure(6_000, &"group", patient());
        assert_eq!(
            warning,
            Some(Warning {
                failures: 3,
                for_ms: 5_000
            })
        );
    }

    #[test]
    fn nothing_is_kept_of_what_works() {
        let mut outages = Outages::default();
        outages.handle_failure(0, &"b1", failure("refused"));
        outages.handle_success(WARN_INTERVAL_MS, &"b1");
        assert!(outages.subjects.is_empty());
        outages.handle_failure(0, &"b2", failure("refused"));
        outages.retain(|_| false);
        assert!(outages.subjects.is_empty());
    }
}
