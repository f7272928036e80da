//! Log lines that do not flood: one for each cause and interval, with the number of those that were like it.

use std::collections::BTreeMap;

/// The number of causes that are told apart. Lines of any further cause are not limited.
const CAUSES_MAX: usize = 1_024;

/// Decides which of many notices are told. Without a clock: every call says what time it is.
#[derive(Debug)]
pub(crate) struct Throttle<K, N> {
    interval_ms: i64,
    causes: BTreeMap<K, Cause<N>>,
}

/// A notice to be told, and how many like it are not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told<N> {
    pub(crate) notice: N,
    pub(crate) similar: u64,
}

#[derive(Debug)]
struct Cause<N> {
    told_ms: i64,
    /// The first since then, which is told when the interval is over.
    kept: Option<N>,
    /// How many there were since then.
    count: u64,
}

impl<N> Cause<N> {
    fn take(&mut self, now_ms: i64) -> Option<Told<N>> {
        let notice = self.kept.take()?;
        let similar = std::mem::take(&mut self.count).saturating_sub(1);
        self.told_ms = now_ms;
        Some(Told { notice, similar })
    }
}

impl<K: Ord + Clone, N> Throttle<K, N> {
    pub(crate) fn new(interval_ms: i64) -> Self {
        Self {
            interval_ms,
            causes: BTreeMap::new(),
        }
    }

    /// Something has happened. It is told at once, or counted: then [`next_ms`](Self::next_ms) says when it is told. A
    /// notice that is only counted is not made.
    pub(crate) fn note(&mut self, now_ms: i64, cause: K, notice: impl FnOnce() -> N) -> Option<Told<N>> {
        let until_ms = now_ms.saturating_sub(self.interval_ms);
        let Some(found) = self.causes.get_mut(&cause) else {
            self.make_room(until_ms);
            if self.causes.len() < CAUSES_MAX {
                let new = Cause {
                    told_ms: now_ms,
                    kept: None,
                    count: 0,
                };
                self.causes.insert(cause, new);
            }
            let notice = notice();
            return Some(Told { notice, similar: 0 });
        };
        found.count += 1;
        found.kept.get_or_insert_with(notice);
        if found.told_ms > until_ms {
            return None;
        }
        found.take(now_ms)
    }

    /// When something that was counted is to be told.
    pub(crate) fn next_ms(&self) -> Option<i64> {
        let waiting = self.causes.values().filter(|cause| cause.kept.is_some());
        let told_ms = waiting.map(|cause| cause.told_ms).min()?;
        Some(told_ms.saturating_add(self.interval_ms))
    }

    /// The next of those that are due.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<Told<N>> {
        let until_ms = now_ms.saturating_sub(self.interval_ms);
        self.causes
            .values_mut()
            .find(|cause| cause.kept.is_some() && cause.told_ms <= until_ms)?
            .take(now_ms)
    }

    /// The next line that was kept back, whether it is due or not.
    pub(crate) fn pop(&mut self) -> Option<Told<N>> {
        self.causes.values_mut().find_map(|cause| cause.take(cause.told_ms))
    }

    fn make_room(&mut self, until_ms: i64) {
        if self.causes.len() >= CAUSES_MAX {
            self.causes
                .retain(|_, cause| cause.kept.is_some() || cause.told_ms > until_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(notice: u32, similar: u64) -> Option<Told<u32>> {
        Some(Told { notice, similar })
    }

    #[test]
    fn the_first_is_told_at_once_and_others_once_per_interval_with_their_number() {
        let mut throttle = Throttle::new(1_000);
        assert_eq!(throttle.note(0, "a", || 0), told(0, 0));
        for number in 1..=214 {
            assert_eq!(throttle.note(10, "a", || number), None);
        }
        assert_eq!(throttle.note(10, "b", || 500), told(500, 0), "another cause");
        assert_eq!((throttle.next_ms(), throttle.pop_due(999)), (Some(1_000), None));
        assert_eq!(throttle.pop_due(1_000), told(1, 213));
        assert_eq!((throttle.next_ms(), throttle.pop_due(9_999)), (None, None));
    }

    #[test]
    fn what_was_not_told_in_time_is_told_with_the_next() {
        let mut throttle = Throttle::new(1_000);
        assert_eq!(throttle.note(0, "a", || 0), told(0, 0));
        assert_eq!(throttle.note(1, "a", || 1), None);
        assert_eq!(throttle.note(1_000, "a", || 2), told(1, 1));
        assert_eq!(throttle.note(1_999, "a", || 3), None);
        assert_eq!(throttle.pop(), told(3, 0), "at the end nothing is left untold");
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
        assert!(throttle.note(501, CAUSES_MAX, || 2).is_some(), "it is not told apart");
        assert!(throttle.note(2_000, CAUSES_MAX, || 3).is_some());
        assert_eq!(throttle.causes.len(), 2, "the one that is kept, and the new one");
    }
}
