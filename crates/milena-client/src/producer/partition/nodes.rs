//! Availability of brokers for records without a key (`partitioner.availability.timeout.ms`).

use std::collections::BTreeMap;

/// Tracks since when each broker has accepted nothing although batches wait for it.
#[derive(Debug, Default)]
pub struct NodeAvailability {
    /// `None` without a limit.
    timeout_ms: Option<i64>,
    nodes: BTreeMap<i32, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// The time when a batch was last ready for it.
    ready_ms: i64,
    /// The time when it last could accept a request.
    taken_ms: i64,
}

impl NodeAvailability {
    pub fn new(timeout_ms: Option<i64>) -> Self {
        Self {
            timeout_ms,
            nodes: BTreeMap::new(),
        }
    }

    /// Handles a batch that is ready. `can_take`: a request may be sent to the broker now.
    pub fn on_ready(&mut self, now_ms: i64, node: i32, can_take: bool) {
        if self.timeout_ms.is_none() {
            return;
        }
        let waiting = self.nodes.entry(node).or_insert(Waiting {
            ready_ms: now_ms,
            taken_ms: now_ms,
        });
        waiting.ready_ms = now_ms;
        if can_take {
            waiting.taken_ms = now_ms;
        }
    }

    /// Whether records without a key may go to the partitions of a broker.
    pub fn is_available(&self, node: i32) -> bool {
        let (Some(timeout_ms), Some(waiting)) = (self.timeout_ms, self.nodes.get(&node)) else {
            return true;
        };
        waiting.ready_ms - waiting.taken_ms <= timeout_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_takes_nothing_is_left_out_until_it_takes_something() {
        let mut nodes = NodeAvailability::new(Some(100));
        assert!(nodes.is_available(1), "nothing is known of it");
        nodes.on_ready(0, 1, false);
        nodes.on_ready(100, 1, false);
        assert!(nodes.is_available(1));
        nodes.on_ready(101, 1, false);
        assert!(!nodes.is_available(1) && nodes.is_available(2));
        nodes.on_ready(102, 1, true);
        assert!(nodes.is_available(1));
        // A broker without waiting batches is available.
        nodes.on_ready(10_000, 1, true);
        assert!(nodes.is_available(1));
    }

    #[test]
    fn without_a_limit_all_may_take_their_time() {
        let mut nodes = NodeAvailability::new(None);
        nodes.on_ready(0, 1, false);
        nodes.on_ready(1_000_000, 1, false);
        assert!(nodes.is_available(1));
    }
}
