//! Deadlines as data.

use std::collections::{BTreeMap, BTreeSet};

use milena_invariant::invariant;

/// Deadlines by key, at most one for each. Equal deadlines fire in the order of their keys.
///
/// Moving a deadline costs two tree operations. Where that would happen on every heartbeat, keep the true deadline
/// beside the member, leave the timer where it is, and check again when it fires.
#[derive(Debug, Clone)]
pub(crate) struct Timers<Key> {
    deadlines: BTreeMap<Key, i64>,
    queue: BTreeSet<(i64, Key)>,
}

impl<Key> Default for Timers<Key> {
    fn default() -> Self {
        Self {
            deadlines: BTreeMap::new(),
            queue: BTreeSet::new(),
        }
    }
}

impl<Key: Clone + Ord> Timers<Key> {
    /// Sets or moves a deadline.
    pub(crate) fn set(&mut self, key: Key, deadline_ms: i64) {
        if let Some(old) = self.deadlines.insert(key.clone(), deadline_ms) {
            self.queue.remove(&(old, key.clone()));
        }
        self.queue.insert((deadline_ms, key));
    }

    /// Sets a deadline if there is none or a later one.
    pub(crate) fn set_no_later(&mut self, key: Key, deadline_ms: i64) {
        if self.deadlines.get(&key).is_none_or(|old| *old > deadline_ms) {
            self.set(key, deadline_ms);
        }
    }

    pub(crate) fn cancel(&mut self, key: &Key) {
        if let Some(old) = self.deadlines.remove(key) {
            self.queue.remove(&(old, key.clone()));
        }
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<i64> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns the earliest deadline that is due.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<Key> {
        if self.next_deadline()? > now_ms {
            return None;
        }
        let (deadline, key) = self.queue.pop_first()?;
        let removed = self.deadlines.remove(&key);
        invariant!(removed == Some(deadline), "every_queued_deadline_is_current");
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_and_only_when_due() {
        let mut timers = Timers::default();
        timers.set("late", 30);
        timers.set("moved", 5);
        timers.set("moved", 20);
        timers.set("cancelled", 1);
        timers.cancel(&"cancelled");
        timers.set("also at 20", 20);
        timers.set_no_later("late", 40);
        assert_eq!(timers.next_deadline(), Some(20));
        assert_eq!(timers.pop_due(19), None);
        assert_eq!(timers.pop_due(20), Some("also at 20"));
        assert_eq!(timers.pop_due(20), Some("moved"));
        assert_eq!(timers.pop_due(20), None);
        assert_eq!(timers.pop_due(30), Some("late"));
        assert_eq!(timers.next_deadline(), None);
    }
}
