//! Time, as a queue of events.

use std::collections::BTreeMap;

/// Events in the order of their time; those of one time in the order in which they were planned.
#[derive(Debug)]
pub(crate) struct Queue<Event> {
    now: i64,
    planned: u64,
    events: BTreeMap<(i64, u64), Event>,
}

impl<Event> Queue<Event> {
    pub(crate) fn new(now: i64) -> Self {
        Self {
            now,
            planned: 0,
            events: BTreeMap::new(),
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.now
    }

    /// Plans an event; one in the past happens now.
    pub(crate) fn at(&mut self, time: i64, event: Event) {
        self.planned += 1;
        self.events.insert((time.max(self.now), self.planned), event);
    }

    pub(crate) fn after(&mut self, delay_ms: i64, event: Event) {
        self.at(self.now + delay_ms, event);
    }

    /// The next event, unless it is after `end`; time moves to it.
    pub(crate) fn next(&mut self, end: i64) -> Option<Event> {
        let entry = self.events.first_entry().filter(|entry| entry.key().0 <= end)?;
        self.now = entry.key().0;
        Some(entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_of_planning() {
        let mut queue = Queue::new(10);
        queue.at(30, "last");
        queue.at(20, "first at 20");
        queue.at(20, "second at 20");
        queue.at(5, "late, so now");
        let seen: Vec<_> = std::iter::from_fn(|| queue.next(25)).collect();
        assert_eq!(seen, ["late, so now", "first at 20", "second at 20"]);
        assert_eq!(queue.now(), 20);
    }
}
