//! Completed fetches that were not polled yet, under one byte budget.

use std::collections::{BTreeMap, VecDeque};

use milena_machines::{
    TopicPartition,
    fetch::{PositionEpoch, Positions},
};

use super::completed_fetch::{CompletedFetch, FetchEnd};

/// The queue between the connections and `poll`. The budget covers completed fetches and fetches in flight.
#[derive(Debug)]
pub(crate) struct Buffer {
    budget: usize,
    /// Bytes of fetches in flight.
    reserved: usize,
    /// Bytes of completed fetches, including those taken by `poll`.
    buffered: usize,
    /// Number of completed fetches taken by `poll`.
    taken: usize,
    queue: VecDeque<CompletedFetch>,
    by_partition: BTreeMap<TopicPartition, usize>,
}

/// A fetch for fewer bytes is not worth a request.
const WORTH_FETCHING: usize = 64 * 1024;

impl Buffer {
    pub(crate) fn new(budget: usize) -> Self {
        Self {
            budget,
            reserved: 0,
            buffered: 0,
            taken: 0,
            queue: VecDeque::new(),
            by_partition: BTreeMap::new(),
        }
    }

    /// Reserves up to `requested` bytes for one of `fetches` fetches; `None` if the budget is exhausted.
    ///
    /// A budget below [`WORTH_FETCHING`] still allows one fetch when nothing else is buffered.
    pub(crate) fn reserve(&mut self, requested: usize, fetches: usize) -> Option<usize> {
        let used = self.buffered + self.reserved;
        let share = self.budget.saturating_sub(used) / fetches.max(1);
        // One fetch never takes the whole budget, so that the next is in flight while its records are read.
        let share = share.min(self.budget / 2);
        if share < WORTH_FETCHING.min(requested) && used > 0 {
            return None;
        }
        let reserved = requested.min(share.max(1));
        self.reserved += reserved;
        Some(reserved)
    }

    /// Returns the reservation of a fetch that is over.
    pub(crate) fn unreserve(&mut self, bytes: usize) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    pub(crate) fn push(&mut self, completed: CompletedFetch) {
        self.buffered += completed.bytes;
        *self.by_partition.entry(completed.partition.clone()).or_default() += completed.bytes;
        self.queue.push_back(completed);
    }

    /// Returns a fetch that was taken and not delivered completely. It is the next to deliver.
    pub(crate) fn put_back(&mut self, completed: CompletedFetch) {
        self.taken = self.taken.saturating_sub(1);
        self.queue.push_front(completed);
    }

    /// Removes a fetch that was taken, after it was delivered or discarded.
    pub(crate) fn finish(&mut self, completed: &CompletedFetch) {
        self.taken = self.taken.saturating_sub(1);
        self.release(completed);
    }

    /// Takes the next fetch to deliver. Stale ones are dropped; those of paused partitions stay.
    pub(crate) fn take(&mut self, positions: &Positions) -> Option<CompletedFetch> {
        let mut index = 0;
        while let Some(completed) = self.queue.get(index) {
            match positions.deliverable(&completed.partition, completed.epoch) {
                Some(true) => {
                    self.taken += 1;
                    return self.queue.remove(index);
                }
                Some(false) => index += 1,
                None => {
                    if let Some(stale) = self.queue.remove(index) {
                        self.release(&stale);
                    }
                }
            }
        }
        None
    }

    /// The next fetch, if it may be delivered and has more than `count` decoded records.
    pub(crate) fn first_decoded(&mut self, positions: &Positions, count: usize) -> Option<&mut CompletedFetch> {
        let first = self.queue.front_mut().filter(|first| first.decoded() > count)?;
        (positions.deliverable(&first.partition, first.epoch) == Some(true)).then_some(first)
    }

    fn release(&mut self, completed: &CompletedFetch) {
        self.buffered = self.buffered.saturating_sub(completed.bytes);
        if let Some(bytes) = self.by_partition.get_mut(&completed.partition) {
            *bytes = bytes.saturating_sub(completed.bytes);
            if *bytes == 0 {
                self.by_partition.remove(&completed.partition);
            }
        }
    }

    /// Drops stale fetches.
    pub(crate) fn retain_current(&mut self, positions: &Positions) {
        let queue = std::mem::take(&mut self.queue);
        for completed in queue {
            if positions.deliverable(&completed.partition, completed.epoch).is_some() {
                self.queue.push_back(completed);
            } else {
                self.release(&completed);
            }
        }
    }

    /// Whether everything buffered is paused, and nothing is in flight.
    pub(crate) fn is_full_of_paused(&self, positions: &Positions) -> bool {
        let mut queue = self.queue.iter();
        let is_paused =
            |completed: &CompletedFetch| positions.deliverable(&completed.partition, completed.epoch) == Some(false);
        self.reserved == 0 && self.taken == 0 && queue.all(is_paused)
    }

    /// Drops the fetches of the partition with the most bytes. The caller must refetch it from its position.
    pub(crate) fn evict_largest(&mut self) -> Option<(TopicPartition, PositionEpoch)> {
        let (partition, _) = self.by_partition.iter().max_by_key(|(_, bytes)| **bytes)?;
        let partition = partition.clone();
        let epoch = self
            .queue
            .iter()
            .find(|completed| completed.partition == partition)?
            .epoch;
        for completed in std::mem::take(&mut self.queue) {
            if completed.partition == partition {
                self.release(&completed);
            } else {
                self.queue.push_back(completed);
            }
        }
        Some((partition, epoch))
    }

    /// Whether the partition has an end to report before more of it is fetched.
    pub(crate) fn ends(&self, partition: &TopicPartition) -> bool {
        let mut queue = self.queue.iter();
        queue.any(|completed| *completed.end() != FetchEnd::Open && completed.partition == *partition)
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

    use super::{super::completed_fetch::FetchOrigin, *};

    const KB: usize = 1024;

    fn orders(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    /// Positions with the partitions 0 and 1 assigned, and their epochs.
    fn assigned() -> (Positions, Vec<PositionEpoch>) {
        let mut positions = Positions::new(ResetPolicy::Earliest, false, 100);
        positions.assign([orders(0), orders(1)]);
        let resets = positions.poll_resets(0);
        for reset in &resets {
            positions.handle_reset(&reset.partition, reset.epoch, Position::at(0));
        }
        (positions, resets.iter().map(|reset| reset.epoch).collect())
    }

    fn completed(partition: i32, epoch: PositionEpoch, bytes: usize) -> CompletedFetch {
        let mut batch = BatchBuilder::new(BatchOptions::default());
        let value = vec![0; bytes];
        let record = NewRecord {
            timestamp: 0,
            key: None,
            value: Some(&value),
            headers: &[],
        };
        batch.append(&record).unwrap();
        let origin = FetchOrigin {
            partition: orders(partition),
            epoch,
            position: Position::at(0),
        };
        CompletedFetch::new(origin, Batches::new(batch.finish()), None)
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
        let (mut positions, epochs) = assigned();
        let mut buffer = Buffer::new(1_000 * KB);
        buffer.push(completed(0, epochs[0], 10));
        buffer.push(completed(1, epochs[1], 10));
        positions.pause(&orders(0), true);
        let taken = buffer.take(&positions).unwrap();
        assert_eq!(taken.partition, orders(1));
        buffer.put_back(taken);
        assert_eq!(buffer.take(&positions).map(|taken| taken.partition), Some(orders(1)));
        assert!(buffer.take(&positions).is_none());
        positions.pause(&orders(0), false);
        positions.seek(&orders(0), Position::at(7));
        assert!(buffer.take(&positions).is_none());
        assert_eq!(buffer.bytes_of(&orders(0)), 0, "what is stale is not counted any more");
    }

    #[test]
    fn paused_records_make_room_only_when_nothing_else_can() {
        let (mut positions, epochs) = assigned();
        let mut buffer = Buffer::new(100 * KB);
        buffer.push(completed(0, epochs[0], 80 * KB));
        buffer.push(completed(1, epochs[1], 10));
        assert_eq!(buffer.reserve(50 * KB, 1), None);
        positions.pause(&orders(0), true);
        assert!(!buffer.is_full_of_paused(&positions), "the other can be handed out");
        let other = buffer.take(&positions).unwrap();
        assert!(!buffer.is_full_of_paused(&positions), "it is being handed out");
        buffer.finish(&other);
        assert!(buffer.is_full_of_paused(&positions));
        assert_eq!(buffer.evict_largest(), Some((orders(0), epochs[0])));
        assert_eq!(buffer.reserve(50 * KB, 1), Some(50 * KB));
    }
}
