//! What is fetched and not handed out yet, under one budget of bytes.

use std::collections::{BTreeMap, VecDeque};

use milena_machines::{
    TopicPartition,
    fetch::{PositionEpoch, Positions},
};

use super::fetched::{End, Fetched};

/// The queue between the connections and `poll`. The budget covers what waits here and what has been asked for.
#[derive(Debug)]
pub(crate) struct Buffer {
    budget: usize,
    /// Asked for and not answered.
    reserved: usize,
    /// Here, or in the hands of `poll`.
    held: usize,
    /// How many are in the hands of `poll`.
    in_hand: usize,
    queue: VecDeque<Fetched>,
    by_partition: BTreeMap<TopicPartition, usize>,
}

/// A fetch that could bring less than this is not worth its way.
const WORTH_FETCHING: usize = 64 * 1024;

impl Buffer {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            budget,
            reserved: 0,
            held: 0,
            in_hand: 0,
            queue: VecDeque::new(),
            by_partition: BTreeMap::new(),
        }
    }

    /// Sets up to `wanted` bytes aside for one fetch of `fetches` that may begin now; `None` if the budget is used up.
    ///
    /// A budget below [`WORTH_FETCHING`] still lets one fetch through when nothing else is there.
    pub(crate) fn reserve(&mut self, wanted: usize, fetches: usize) -> Option<usize> {
        let used = self.held + self.reserved;
        let share = self.budget.saturating_sub(used) / fetches.max(1);
        // One fetch never takes all: while its records are read, the next is on its way.
        let share = share.min(self.budget / 2);
        if share < WORTH_FETCHING.min(wanted) && used > 0 {
            return None;
        }
        let reserved = wanted.min(share.max(1));
        self.reserved += reserved;
        Some(reserved)
    }

    /// The fetch was answered, or never will be.
    pub(crate) fn unreserve(&mut self, bytes: usize) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    pub(crate) fn push(&mut self, fetched: Fetched) {
        self.held += fetched.bytes;
        *self.by_partition.entry(fetched.partition.clone()).or_default() += fetched.bytes;
        self.queue.push_back(fetched);
    }

    /// Puts back what was taken and not handed out to its end: it comes next.
    pub(crate) fn put_back(&mut self, fetched: Fetched) {
        self.in_hand = self.in_hand.saturating_sub(1);
        self.queue.push_front(fetched);
    }

    /// What was taken is handed out to its end, or will never be.
    pub(crate) fn finish(&mut self, fetched: &Fetched) {
        self.in_hand = self.in_hand.saturating_sub(1);
        self.release(fetched);
    }

    /// The next that may be handed out. What is stale is dropped; what is paused stays.
    pub(crate) fn take(&mut self, positions: &Positions) -> Option<Fetched> {
        let mut place = 0;
        while let Some(fetched) = self.queue.get(place) {
            match positions.deliverable(&fetched.partition, fetched.turn) {
                Some(true) => {
                    self.in_hand += 1;
                    return self.queue.remove(place);
                }
                Some(false) => place += 1,
                None => {
                    if let Some(stale) = self.queue.remove(place) {
                        self.release(&stale);
                    }
                }
            }
        }
        None
    }

    /// The one that comes next, if it may be handed out and has more than `count` records decoded.
    pub(crate) fn first_decoded(&mut self, positions: &Positions, count: usize) -> Option<&mut Fetched> {
        let first = self.queue.front_mut().filter(|first| first.decoded() > count)?;
        (positions.deliverable(&first.partition, first.turn) == Some(true)).then_some(first)
    }

    fn release(&mut self, fetched: &Fetched) {
        self.held = self.held.saturating_sub(fetched.bytes);
        if let Some(bytes) = self.by_partition.get_mut(&fetched.partition) {
            *bytes = bytes.saturating_sub(fetched.bytes);
            if *bytes == 0 {
                self.by_partition.remove(&fetched.partition);
            }
        }
    }

    /// Drops what is stale.
    pub(crate) fn retain_current(&mut self, positions: &Positions) {
        let queue = std::mem::take(&mut self.queue);
        for fetched in queue {
            if positions.deliverable(&fetched.partition, fetched.turn).is_some() {
                self.queue.push_back(fetched);
            } else {
                self.release(&fetched);
            }
        }
    }

    /// Whether nothing that is here can be handed out, and nothing more is on its way.
    pub(crate) fn is_full_of_paused(&self, positions: &Positions) -> bool {
        let mut queue = self.queue.iter();
        let is_paused = |fetched: &Fetched| positions.deliverable(&fetched.partition, fetched.turn) == Some(false);
        self.reserved == 0 && self.in_hand == 0 && queue.all(is_paused)
    }

    /// Lets go of the partition that takes most. It must be read again from where it stands.
    pub(crate) fn evict_largest(&mut self) -> Option<(TopicPartition, PositionEpoch)> {
        let (partition, _) = self.by_partition.iter().max_by_key(|(_, bytes)| **bytes)?;
        let partition = partition.clone();
        let turn = self.queue.iter().find(|fetched| fetched.partition == partition)?.turn;
        for fetched in std::mem::take(&mut self.queue) {
            if fetched.partition == partition {
                self.release(&fetched);
            } else {
                self.queue.push_back(fetched);
            }
        }
        Some((partition, turn))
    }

    /// Whether something is to be told of the partition before more of it is read.
    pub(crate) fn ends(&self, partition: &TopicPartition) -> bool {
        let mut queue = self.queue.iter();
        queue.any(|fetched| *fetched.end() != End::Open && fetched.partition == *partition)
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn bytes_of(&self, partition: &TopicPartition) -> usize {
        self.by_partition.get(partition).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use milena_machines::fetch::{Position, ResetPolicy};
    use milena_wire::records::{BatchBuilder, BatchOptions, Batches, NewRecord};

    use super::*;

    const KB: usize = 1024;

    fn place(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    /// Positions of which partitions 0 and 1 are read, and their turns.
    fn reading() -> (Positions, Vec<PositionEpoch>) {
        let mut positions = Positions::new(ResetPolicy::Earliest, false, 100);
        positions.assign([place(0), place(1)]);
        let resets = positions.poll_resets(0);
        for reset in &resets {
            positions.handle_reset(&reset.partition, reset.epoch, Position::at(0));
        }
        (positions, resets.iter().map(|reset| reset.epoch).collect())
    }

    fn fetched(partition: i32, turn: PositionEpoch, bytes: usize) -> Fetched {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        let value = vec![0; bytes];
        let record = NewRecord {
            timestamp: 0,
            key: None,
            value: Some(&value),
            headers: &[],
        };
        batch.append(&record).unwrap();
        Fetched::new(
            (place(partition), turn),
            Position::at(0),
            Batches::new(batch.finish()),
            None,
        )
    }

    #[test]
    fn what_is_asked_for_and_what_is_here_stay_within_the_budget() {
        let mut buffer = Buffer::new(1_000 * KB);
        assert_eq!(buffer.reserve(300 * KB, 1), Some(300 * KB));
        assert_eq!(
            buffer.reserve(9_000 * KB, 2),
            Some(350 * KB),
            "a fair share of what is left"
        );
        assert_eq!(buffer.reserve(9_000 * KB, 1), Some(350 * KB));
        assert_eq!(buffer.reserve(9_000 * KB, 1), None);
        buffer.unreserve(300 * KB);
        assert_eq!(buffer.reserve(9_000 * KB, 1), Some(300 * KB));
        let mut empty = Buffer::new(1_000 * KB);
        assert_eq!(
            empty.reserve(9_000 * KB, 1),
            Some(500 * KB),
            "the next must have room too"
        );
        let mut tiny = Buffer::new(KB);
        assert_eq!(tiny.reserve(9_000 * KB, 1), Some(512), "one fetch always gets through");
        assert_eq!(tiny.reserve(9_000 * KB, 1), None);
    }

    #[test]
    fn records_come_in_order_stale_ones_go_and_paused_ones_stay() {
        let (mut positions, turns) = reading();
        let mut buffer = Buffer::new(1_000 * KB);
        buffer.push(fetched(0, turns[0], 10));
        buffer.push(fetched(1, turns[1], 10));
        positions.pause(&place(0), true);
        let taken = buffer.take(&positions).unwrap();
        assert_eq!(taken.partition, place(1));
        buffer.put_back(taken);
        assert_eq!(buffer.take(&positions).map(|taken| taken.partition), Some(place(1)));
        assert!(buffer.take(&positions).is_none());
        positions.pause(&place(0), false);
        positions.seek(&place(0), Position::at(7));
        assert!(buffer.take(&positions).is_none());
        assert_eq!(buffer.bytes_of(&place(0)), 0, "what is stale is not counted any more");
    }

    #[test]
    fn paused_records_make_room_only_when_nothing_else_can() {
        let (mut positions, turns) = reading();
        let mut buffer = Buffer::new(100 * KB);
        buffer.push(fetched(0, turns[0], 80 * KB));
        buffer.push(fetched(1, turns[1], 10));
        assert_eq!(buffer.reserve(50 * KB, 1), None);
        positions.pause(&place(0), true);
        assert!(!buffer.is_full_of_paused(&positions), "the other can be handed out");
        let other = buffer.take(&positions).unwrap();
        assert!(!buffer.is_full_of_paused(&positions), "it is being handed out");
        buffer.finish(&other);
        assert!(buffer.is_full_of_paused(&positions));
        assert_eq!(buffer.evict_largest(), Some((place(0), turns[0])));
        assert_eq!(buffer.reserve(50 * KB, 1), Some(50 * KB));
    }
}
