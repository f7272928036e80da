//! Rate limit of log lines: one per cause and interval, with the number of similar ones.

use std::collections::BTreeMap;

/// Bound of tracked causes. Lines of further causes are not limited.
const CAUSES_MAX: usize = 1_024;

/// Decides which notices are logged. It has no clock: the caller passes the time.
#[derive(Debug)]
pub(crate) struct Throttle<K, N> {
    interval_ms: i64,
    causes: BTreeMap<K, Cause<N>>,
}

/// A notice to be logged, with the number of similar ones that are not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LogLine<N> {
    pub(crate) notice: N,
    pub(crate) similar: u64,
}

#[derive(Debug)]
struct Cause<N> {
    logged_ms: i64,
    /// First notice since the last line, logged at the end of the interval.
    kept: Option<N>,
    /// Number of notices since the last line.
    count: u64,
}

impl<N> Cause<N> {
    fn take(&mut self, now_ms: i64) -> Option<LogLine<N>> {
        let notice = self.kept.take()?;
        let similar = std::mem::take(&mut self.count).saturating_sub(1);
        self.logged_ms = now_ms;
        Some(LogLine { notice, similar })
    }
}

impl<K: Ord + Clone, N> Throttle<K, N> {
    pub(crate) fn new(interval_ms: i64) -> Self {
        Self {
            interval_ms,
            causes: BTreeMap::new(),
        }
    }

    /// Returns the line to be logged now, or counts the notice; then [`next_ms`](Self::next_ms) is the time of its
    /// line. A notice that is only counted is not built.
    pub(crate) fn note(&mut self, now_ms: i64, cause: K, notice: impl FnOnce() -> N) -> Option<LogLine<N>> {
        let until_ms = now_ms.saturating_sub(self.interval_ms);
        let Some(found) = self.causes.get_mut(&cause) else {
            self.make_room(until_ms);
            if self.causes.len() < CAUSES_MAX {
                let new = Cause {
                    logged_ms: now_ms,
                    kept: None,
                    count: 0,
                };
                self.causes.insert(cause, new);
            }
            let notice = notice();
            return Some(LogLine { notice, similar: 0 });
        };
        found.count += 1;
        found.kept.get_or_insert_with(notice);
        if found.logged_ms > until_ms {
            return None;
        }
        found.take(now_ms)
    }

    /// Time of the next line of counted notices.
    pub(crate) fn next_ms(&self) -> Option<i64> {
        let waiting = self.causes.values().filter(|cause| cause.kept.is_some());
        let logged_ms = waiting.map(|cause| cause.logged_ms).min()?;
        Some(logged_ms.saturating_add(self.interval_ms))
    }

    /// Returns the next line that is due.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<LogLine<N>> {
        let until_ms = now_ms.saturating_sub(self.interval_ms);
        self.causes
            .values_mut()
            .find(|cause| cause.kept.is_some() && cause.logged_ms <= until_ms)?
            .take(now_ms)
    }

    /// Returns the next counted notice, due or not.
    pub(crate) fn pop(&mut self) -> Option<LogLine<N>> {
        self.causes.values_mut().find_map(|cause| cause.take(cause.logged_ms))
    }

    fn make_room(&mut self, until_ms: i64) {
        if self.causes.len() >= CAUSES_MAX {
            self.causes
                .retain(|_, cause| cause.kept.is_some() || cause.logged_ms > until_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(notice: u32, similar: u64) -> Option<LogLine<u32>> {
        Some(LogLine { notice, similar })
    }

    #[test]
    fn the_first_is_logged_at_once_and_others_once_per_interval_with_their_number() {
        let mut throttle = Throttle::new(1_000);
        assert_eq!(throttle.note(0, "a", || 0), line(0, 0));
        for number in 1..=214 {
            assert_eq!(throttle.note(10, "a", || number), None);
        }
        assert_eq!(throttle.note(10, "b", || 500), line(500, 0), "another cause");
        assert_eq!((throttle.next_ms(), throttle.pop_due(999)), (Some(1_000), None));
        assert_eq!(throttle.pop_due(1_000), line(1, 213));
        assert_eq!((throttle.next_ms(), throttle.pop_due(9_999)), (None, None));
    }

    #[test]
    fn a_notice_that_was_not_logged_in_time_is_logged_with_the_next() {
        let mut throttle = Throttle::new(1_000);
        assert_eq!(throttle.note(0, "a", || 0), line(0, 0));
        assert_eq!(throttle.note(1, "a", || 1), None);
        assert_eq!(throttle.note(1_000, "a", || 2), line(1, 1));
        assert_eq!(throttle.note(1_999, "a", || 3), None);
        assert_eq!(throttle.pop(), line(3, 0), "at the end every notice is logged");
        assert_eq!(throttle.pop(), None);
    }

    #[test]
    fn causes_are_forgotten_when_there_are_too_many_and_nothing_is_kept_of_them() {
        let mut throttle = Throttle::new(1_000);
        for cause in 0..CAUSES_MAX {
            assert!(throttle.note(0, cause, || cause).is_some());
        }
        assert_eq!(throttle.note(0, 0, || 0), None);
        assert!(throttle.note(500, CAUSES_MAX, || 1).is_some());
        assert!(throttle.note(501, CAUSES_MAX, || 2).is_some(), "it is not tracked");
        assert!(throttle.note(2_000, CAUSES_MAX, || 3).is_some());
        assert_eq!(
            throttle.causes.len(),
            2,
            "the one with a counted notice, and the new one"
        );
    }
}
