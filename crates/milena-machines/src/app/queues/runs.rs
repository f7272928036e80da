//! Runs: records of a partition that wait and are handed out together.
//!
//! Handlers get most of their records this way. While the partition has no other record out and no single one waiting, a run
//! is handed out without looking at its keys, and order is kept. A run that cannot wait for that is split into its records,
//! each in the queue of its key; the queues of the keys of runs that are out wait for those runs.

use super::{Keyed, Kind, Order, PartitionQueues, Queues, State};
use crate::app::ids::{Index, PartitionIndex, QueueIndex, RecordIndex};

impl<T: Keyed> Queues<T> {
    /// Appends a run, which waits from `now_ms` on.
    pub(crate) fn enqueue_run(&mut self, now_ms: i64, index: RecordIndex) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        entry.is_run = true;
        entry.state = State::Waiting;
        entry.history.since_ms = now_ms;
        let partition = entry.partition;
        if let Some(runs) = self.partitions.get(partition).map(|found| found.runs) {
            self.push_back(runs, index);
            self.give_turn(partition);
        }
    }

    /// Appends a single record to its queue, although its partition may have runs out.
    pub(crate) fn enqueue_single(&mut self, index: RecordIndex) {
        let partition = self.entries.get(index).map_or(Index::NONE, |entry| entry.partition);
        if let Some(found) = self.partitions.get(partition).copied() {
            self.hold_keys(&found);
        }
        self.enqueue(index);
    }

    /// Whether runs of a partition wait.
    pub(crate) fn has_runs(&self, partition: PartitionIndex) -> bool {
        self.first_run(partition).is_some()
    }

    /// Whether a partition has a run out, or single records.
    pub(crate) fn is_busy(&self, partition: PartitionIndex) -> bool {
        self.partitions.get(partition).is_some_and(|found| {
            let out = self.queues.get(found.runs_out);
            found.singles > 0 || out.is_some_and(|out| out.head != Index::NONE)
        })
    }

    /// The time since when the first run of a partition waits for earlier records; `None` if none does.
    pub(crate) fn waits_since(&self, partition: PartitionIndex) -> Option<i64> {
        let first = self.first_run(partition).filter(|_| !self.is_run_ready(partition))?;
        Some(self.entries.get(first)?.history.since_ms)
    }

    /// The time when a call with records of a partition last ended.
    pub(crate) fn moved_ms(&self, partition: PartitionIndex) -> i64 {
        self.partitions.get(partition).map_or(i64::MIN, |found| found.moved_ms)
    }

    pub(crate) fn set_moved(&mut self, now_ms: i64, partition: PartitionIndex) {
        if let Some(found) = self.partitions.get_mut(partition) {
            found.moved_ms = now_ms;
        }
    }

    /// Whether the calls with records of a partition count as slow.
    pub(crate) fn is_slow(&self, now_ms: i64, partition: PartitionIndex) -> bool {
        let found = self.partitions.get(partition);
        found.is_some_and(|found| now_ms < found.slow_until_ms)
    }

    pub(crate) fn set_slow_until(&mut self, until_ms: i64, partition: PartitionIndex) {
        if let Some(found) = self.partitions.get_mut(partition) {
            found.slow_until_ms = until_ms;
        }
    }

    /// Splits the waiting runs of a partition, so that no key waits for another.
    pub(crate) fn split_waiting_runs(&mut self, partition: PartitionIndex) {
        let Some(found) = self.partitions.get(partition).copied() else {
            return;
        };
        self.hold_keys(&found);
        while let Some(first) = self.first_run(partition) {
            for single in self.split_records(first) {
                self.enqueue(single);
            }
        }
    }

    /// Splits a run that is out: from now on each of its records is out by itself, in its queue by offset. A run of one record
    /// keeps its index.
    pub(crate) fn split_run(&mut self, index: RecordIndex) -> Vec<RecordIndex> {
        let Some(entry) = self.entries.get(index) else {
            return vec![];
        };
        let (history, holds, count) = (entry.history, entry.holds_keys, entry.count);
        let Some(found) = self.partitions.get(entry.partition).copied() else {
            return vec![];
        };
        let singles = if count > 1 {
            self.split_records(index)
        } else {
            self.unlink(found.runs_out, index);
            vec![index]
        };
        self.hold_keys(&found);
        for single in singles.iter().rev() {
            let Some(queue) = self.queue_for(*single) else { continue };
            if let Some(entry) = self.entries.get_mut(*single) {
                entry.state = State::InHandler;
                entry.queue = queue;
                entry.history = history;
                (entry.is_run, entry.holds_keys) = (false, false);
            }
            let Some(found) = self.queues.get_mut(queue) else {
                continue;
            };
            let is_free = found.kind == Kind::Free;
            if is_free || !holds {
                found.out += 1;
            }
            if !is_free {
                self.push_sorted(queue, *single);
            }
        }
        singles
    }

    pub(super) fn is_run_ready(&self, partition: PartitionIndex) -> bool {
        let order = self.partitions.get(partition).map(|found| found.order);
        self.has_runs(partition) && (order == Some(Order::Unordered) || !self.is_busy(partition))
    }

    /// Hands out up to `max` records in up to `runs_max` runs. Returns the number of records.
    pub(super) fn take_runs(
        &mut self,
        partition: PartitionIndex,
        max: usize,
        runs_max: usize,
        out: &mut Vec<RecordIndex>,
    ) -> usize {
        let Some(found) = self.partitions.get(partition).copied() else {
            return 0;
        };
        let mut taken = 0;
        let end = out.len().saturating_add(runs_max);
        while taken < max
            && out.len() < end
            && let Some(index) = self.first_run(partition)
        {
            let rest = self.cut(index, (max - taken) as u32);
            self.unlink(found.runs, index);
            if let Some(rest) = rest {
                self.push_front(found.runs, rest);
            }
            self.push_back(found.runs_out, index);
            if let Some(entry) = self.entries.get_mut(index) {
                entry.state = State::InHandler;
                taken += entry.count as usize;
            }
            out.push(index);
        }
        self.counts.in_handler += taken as u64;
        taken
    }

    pub(super) fn remove_run(&mut self, index: RecordIndex) {
        let Some(entry) = self.entries.get(index) else { return };
        let (partition, state, count) = (entry.partition, entry.state, entry.count);
        if entry.holds_keys {
            self.free_keys(index);
        }
        self.drop_run(index);
        if state == State::InHandler {
            self.counts.in_handler = self.counts.in_handler.saturating_sub(u64::from(count));
        }
        self.give_turn(partition);
    }

    /// Counts a single record out. After the last one the runs behind it may be handed out.
    pub(super) fn single_gone(&mut self, partition: PartitionIndex) {
        if let Some(found) = self.partitions.get_mut(partition) {
            found.singles = found.singles.saturating_sub(1);
            if found.singles == 0 {
                self.give_turn(partition);
            }
        }
    }

    fn first_run(&self, partition: PartitionIndex) -> Option<RecordIndex> {
        let found = self.partitions.get(partition)?;
        let head = self.queues.get(found.runs)?.head;
        (head != Index::NONE).then_some(head)
    }

    /// Leaves at most `most` records in a run; the rest becomes a run of its own.
    fn cut(&mut self, index: RecordIndex, most: u32) -> Option<RecordIndex> {
        let entry = self.entries.get_mut(index).filter(|entry| entry.count > most)?;
        let rest = entry.payload.as_mut()?.split(most)?;
        let (partition, offset, history) = (entry.partition, entry.offset + i64::from(most), entry.history);
        let kept = share(entry.bytes, entry.count, most);
        let bytes = entry.bytes - kept;
        (entry.count, entry.bytes) = (most, kept);
        let rest = self.insert(partition, offset, bytes, rest).index;
        let entry = self.entries.get_mut(rest)?;
        entry.is_run = true;
        entry.state = State::Waiting;
        entry.history = history;
        Some(rest)
    }

    /// Replaces a run by its records, which are in no queue yet.
    fn split_records(&mut self, index: RecordIndex) -> Vec<RecordIndex> {
        let Some(entry) = self.entries.get_mut(index) else {
            return vec![];
        };
        let (partition, mut offset, mut bytes, mut count) = (entry.partition, entry.offset, entry.bytes, entry.count);
        let mut left = entry.payload.take();
        self.drop_run(index);
        let mut singles = Vec::with_capacity(count as usize);
        while let Some(mut payload) = left {
            left = if count > 1 { payload.split(1) } else { None };
            let own = share(bytes, count, 1);
            singles.push(self.insert(partition, offset, own, payload).index);
            bytes -= own;
            offset += 1;
            count = count.saturating_sub(1);
        }
        singles
    }

    /// Removes a run.
    fn drop_run(&mut self, index: RecordIndex) {
        let Some(entry) = self.entries.get(index) else { return };
        let (partition, state) = (entry.partition, entry.state);
        if let Some(found) = self.partitions.get(partition).copied() {
            let queue = if state == State::InHandler {
                found.runs_out
            } else {
                found.runs
            };
            self.unlink(queue, index);
        }
        if let Some(entry) = self.entries.get_mut(index) {
            entry.clear();
            self.entries.give_back(index);
        }
    }

    /// Lets the queues of the keys of runs that are out wait for those runs.
    fn hold_keys(&mut self, found: &PartitionQueues) {
        let mut out = self.queues.get(found.runs_out).map_or(Index::NONE, |queue| queue.head);
        while let Some(entry) = self.entries.get_mut(out) {
            let (index, held) = (out, std::mem::replace(&mut entry.holds_keys, true));
            out = entry.next;
            if held {
                continue;
            }
            for queue in self.queues_of(index) {
                if let Some(queue) = self.queues.get_mut(queue) {
                    queue.out += 1;
                }
            }
        }
    }

    fn free_keys(&mut self, index: RecordIndex) {
        for queue in self.queues_of(index) {
            if let Some(queue) = self.queues.get_mut(queue) {
                queue.out = queue.out.saturating_sub(1);
            }
            self.settle(queue);
        }
    }

    /// The queue of each record of a run, if order matters.
    fn queues_of(&mut self, index: RecordIndex) -> Vec<QueueIndex> {
        let Some(entry) = self.entries.get(index) else {
            return vec![];
        };
        let (partition, count) = (entry.partition, entry.count);
        let Some(found) = self.partitions.get(partition).copied() else {
            return vec![];
        };
        match found.order {
            Order::Partition => vec![found.main; count as usize],
            Order::Unordered => vec![],
            Order::Key => {
                let payload = entry.payload.as_ref();
                let key_at = |place| payload.and_then(|payload| payload.key_at(place));
                let hashes = (0..count).filter_map(|place| self.key_hash(partition, &found, key_at(place)));
                let hashes: Vec<u64> = hashes.collect();
                let queues = hashes.into_iter().map(|hash| self.queue_of_hash(partition, hash));
                queues.collect()
            }
        }
    }

    /// Inserts a record into its queue by offset.
    fn push_sorted(&mut self, index_of_queue: QueueIndex, index: RecordIndex) {
        let Some(offset) = self.entries.get(index).map(|entry| entry.offset) else {
            return;
        };
        let mut before = Index::NONE;
        let mut after = self.queues.get(index_of_queue).map_or(Index::NONE, |queue| queue.head);
        while let Some(entry) = self.entries.get(after).filter(|entry| entry.offset < offset) {
            (before, after) = (after, entry.next);
        }
        if before == Index::NONE {
            return self.push_front(index_of_queue, index);
        }
        if after == Index::NONE {
            return self.push_back(index_of_queue, index);
        }
        for (at, prev, next) in [(before, None, Some(index)), (after, Some(index), None)] {
            if let Some(entry) = self.entries.get_mut(at) {
                entry.prev = prev.unwrap_or(entry.prev);
                entry.next = next.unwrap_or(entry.next);
            }
        }
        if let Some(entry) = self.entries.get_mut(index) {
            (entry.prev, entry.next) = (before, after);
        }
    }
}

/// The share of `bytes` of `of` among `count` records.
fn share(bytes: u32, count: u32, of: u32) -> u32 {
    (u64::from(bytes) * u64::from(of) / u64::from(count.max(1))) as u32
}

#[cfg(test)]
mod tests;
