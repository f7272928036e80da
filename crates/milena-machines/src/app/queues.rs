//! Queues: decide which record may be handed out next, so that order is kept and no partition waits for another.
//!
//! Records that must come one after the other share a queue: those of a partition, or those of a key of a partition. Each
//! key has a queue of its own as long as it has records, so that no key waits for another. A queue is ready when none of
//! its records is out (in a handler or being published); a partition has a list of its ready queues, and the partitions of
//! a handler take turns.
//!
//! Records without order share a queue of which any number may be out.
//!
//! Runs wait outside the queues of keys: see `runs`.

mod entry;
mod keys;
mod parked;
mod runs;
mod sent;
mod slab;

use std::collections::VecDeque;

use milena_invariant::invariant;

pub(crate) use entry::{Entry, History, Passing, State};
pub(crate) use slab::Slab;

use super::{
    HandlerId, Keyed, NullKey, Order, RecordId,
    hash::hash,
    ids::{Index, PartitionIndex, QueueIndex, RecordIndex},
};
use keys::KeyTable;
use parked::Parked;

#[derive(Debug)]
pub(crate) struct Queues<T> {
    seed: u64,
    entries: Slab<RecordIndex, Entry<T>>,
    queues: Slab<QueueIndex, Queue>,
    keys: KeyTable,
    partitions: Slab<PartitionIndex, PartitionQueues>,
    /// For each handler, the partitions with a ready queue or run, in the order of their turns.
    turns: Vec<VecDeque<PartitionIndex>>,
    parked: Parked,
    counts: Counts,
}

/// The number of records by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) in_handler: u64,
    pub(crate) publishing: u64,
    /// Waiting to be handled or published again.
    pub(crate) parked: u64,
}

/// The queues of a partition.
#[derive(Debug, Clone, Copy)]
struct PartitionQueues {
    handler: HandlerId,
    order: Order,
    null_key: NullKey,
    /// The queue of records without a queue of their own.
    main: QueueIndex,
    /// Runs that wait, and runs that are out.
    runs: QueueIndex,
    runs_out: QueueIndex,
    /// The number of its single records, in the queues other than those of runs.
    singles: u32,
    /// The time when a call with its records last ended.
    moved_ms: i64,
    /// Its calls count as slow until this time.
    slow_until_ms: i64,
    /// The list of its ready queues.
    ready_head: QueueIndex,
    ready_tail: QueueIndex,
    /// It is in the list of turns.
    in_turn: bool,
    /// None of its records are handed out.
    blocked: bool,
}

#[derive(Debug, Clone, Copy)]
struct Queue {
    partition: PartitionIndex,
    kind: Kind,
    head: RecordIndex,
    tail: RecordIndex,
    /// The number of its records that are out.
    out: u32,
    /// The queue of its records that others have passed while they are published; `Index::NONE` if there are none.
    sent: QueueIndex,
    ready: bool,
    prev_ready: QueueIndex,
    next_ready: QueueIndex,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Any number may be out. It has only records that are not.
    Free,
    /// One record after the other. It has all records by offset, also those that are out.
    Serial,
    /// As `Serial`, for one key. It is removed when it is empty.
    Keyed { hash: u64 },
}

impl<T: Keyed> Queues<T> {
    pub(crate) fn new(handlers: usize, seed: u64) -> Self {
        Self {
            seed,
            entries: Slab::default(),
            queues: Slab::default(),
            keys: KeyTable::default(),
            partitions: Slab::default(),
            turns: vec![VecDeque::new(); handlers],
            parked: Parked::default(),
            counts: Counts::default(),
        }
    }

    /// Adds a partition, in the slot of a removed one or in the next.
    pub(crate) fn add_partition(
        &mut self,
        partition: PartitionIndex,
        handler: HandlerId,
        order: Order,
        null_key: NullKey,
    ) {
        let kind = match order {
            Order::Partition => Kind::Serial,
            Order::Key | Order::Unordered => Kind::Free,
        };
        let found = PartitionQueues {
            handler,
            order,
            null_key,
            main: self.new_queue(partition, kind),
            runs: self.new_queue(partition, Kind::Free),
            runs_out: self.new_queue(partition, Kind::Free),
            singles: 0,
            moved_ms: i64::MIN,
            slow_until_ms: i64::MIN,
            ready_head: Index::NONE,
            ready_tail: Index::NONE,
            in_turn: false,
            blocked: false,
        };
        self.partitions.put(partition, found);
    }

    /// Stores a record. It is not handed out before [`Self::enqueue`].
    pub(crate) fn insert(&mut self, partition: PartitionIndex, offset: i64, bytes: u32, payload: T) -> RecordId {
        let index = self.entries.take(Entry::empty);
        let serial = self.entries.get_mut(index).map_or(0, |entry| {
            entry.fill(partition, offset, bytes, payload);
            entry.serial
        });
        RecordId { index, serial }
    }

    /// Appends a record to its queue.
    pub(crate) fn enqueue(&mut self, index: RecordIndex) {
        let Some(queue) = self.queue_for(index) else { return };
        if let Some(entry) = self.entries.get_mut(index) {
            entry.state = State::Waiting;
            entry.queue = queue;
        }
        self.push_back(queue, index);
        self.settle(queue);
    }

    /// Hands out up to `max` records of a handler, and up to `run_max` of records that must follow each other. A run is one
    /// index; with `run_max` 1, a partition has at most one run out.
    pub(crate) fn take(&mut self, handler: HandlerId, max: usize, run_max: usize, out: &mut Vec<RecordIndex>) {
        let waiting = self.turns.get(usize::from(handler.0)).map_or(0, VecDeque::len);
        let share = (max / waiting.max(1)).max(1);
        let mut taken = 0;
        while taken < max {
            let Some(turns) = self.turns.get_mut(usize::from(handler.0)) else {
                return;
            };
            let Some(partition) = turns.pop_front() else { return };
            let Some(found) = self.partitions.get_mut(partition) else {
                continue;
            };
            found.in_turn = false;
            if found.blocked {
                continue;
            }
            let until = max.min(taken + share);
            while taken < until {
                let Some(queue) = self.pop_ready(partition) else { break };
                taken += self.take_from(queue, until - taken, run_max.min(max - taken), out);
            }
            if taken < max && self.is_run_ready(partition) {
                let runs_max = if run_max == 1 { 1 } else { usize::MAX };
                taken += self.take_runs(partition, max - taken, runs_max, out);
            }
            self.give_turn(partition);
        }
    }

    /// Whether a handler has a partition with ready records.
    pub(crate) fn has_ready(&self, handler: HandlerId) -> bool {
        let turns = self.turns.get(usize::from(handler.0)).into_iter().flatten();
        let mut queues = turns.filter_map(|partition| self.partitions.get(*partition));
        queues.any(|found| !found.blocked)
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, index: RecordIndex) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        if entry.is_run {
            return self.remove_run(index);
        }
        let (queue, state, partition) = (entry.queue, entry.state, entry.partition);
        let is_sent = matches!(entry.passing, Passing::Sent(_));
        entry.clear();
        self.entries.give_back(index);
        self.count(state, State::Free);
        if state == State::Staged || state == State::Free {
            return;
        }
        if is_sent {
            self.leave_sent(queue, index);
        } else {
            self.leave(queue, index, state);
        }
        self.settle(queue);
        self.single_gone(partition);
    }

    /// Changes the state of a record that is out.
    pub(crate) fn set_out(&mut self, index: RecordIndex, state: State) {
        if let Some(entry) = self.entries.get_mut(index) {
            let old = std::mem::replace(&mut entry.state, state);
            self.count(old, state);
        }
    }

    /// Puts a record that was out back to the front of its queue.
    pub(crate) fn put_back(&mut self, index: RecordIndex) {
        self.come_back(index, State::Waiting);
    }

    /// Puts a record that was out back to its queue, not to be handed out before `due_ms`. Only its queue waits for it.
    pub(crate) fn park(&mut self, index: RecordIndex, due_ms: i64) {
        self.come_back(index, State::Parked);
        self.wait_until(index, due_ms);
    }

    /// Lets a record that is out wait until `due_ms` to be published again.
    pub(crate) fn park_publish(&mut self, index: RecordIndex, due_ms: i64) {
        self.set_out(index, State::Unpublished);
        self.wait_until(index, due_ms);
    }

    /// The time when the first parked record is due.
    pub(crate) fn next_due(&self) -> Option<i64> {
        self.parked.next_due()
    }

    /// Unparks the next record that is due, and returns it.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<RecordIndex> {
        loop {
            let (index, serial, due_ms) = self.parked.pop_due(now_ms)?;
            let Some(entry) = self.entries.get_mut(index) else {
                continue;
            };
            let waits = matches!(entry.state, State::Parked | State::Unpublished);
            if entry.serial != serial || !waits || entry.history.since_ms != due_ms {
                continue;
            }
            if entry.state == State::Parked {
                entry.state = State::Waiting;
                let queue = entry.queue;
                self.count(State::Parked, State::Waiting);
                if self.queues.get(queue).is_some_and(|queue| queue.kind == Kind::Free) {
                    self.push_front(queue, index);
                }
                self.settle(queue);
            }
            return Some(index);
        }
    }

    /// Blocks or unblocks a partition.
    pub(crate) fn block(&mut self, partition: PartitionIndex, blocked: bool) {
        if let Some(found) = self.partitions.get_mut(partition) {
            found.blocked = blocked;
            self.give_turn(partition);
        }
    }

    pub(crate) fn is_blocked(&self, partition: PartitionIndex) -> bool {
        self.partitions.get(partition).is_some_and(|found| found.blocked)
    }

    /// The records of a partition.
    pub(crate) fn of_partition(&self, partition: PartitionIndex) -> impl Iterator<Item = RecordIndex> {
        self.entries.indexes().filter(move |index| {
            let entry = self.entries.get(*index);
            entry.is_some_and(|entry| entry.partition == partition && entry.state != State::Free)
        })
    }

    /// Removes a partition whose records were all removed.
    pub(crate) fn remove_partition(&mut self, partition: PartitionIndex) {
        let Some(found) = self.partitions.get_mut(partition) else {
            return;
        };
        found.blocked = true;
        let (queues, handler) = ([found.main, found.runs, found.runs_out], found.handler);
        (found.main, found.runs, found.runs_out) = (Index::NONE, Index::NONE, Index::NONE);
        found.ready_head = Index::NONE;
        found.ready_tail = Index::NONE;
        found.in_turn = false;
        queues.into_iter().for_each(|queue| self.queues.give_back(queue));
        if let Some(turns) = self.turns.get_mut(usize::from(handler.0)) {
            turns.retain(|turn| *turn != partition);
        }
        let entries = &self.entries;
        self.parked
            .retain(|index, serial| entries.get(index).is_some_and(|entry| entry.serial == serial));
    }

    /// The entry of a record. Outside the queues every index is one that was given out, so there always is one.
    #[inline]
    pub(crate) fn entry(&self, index: RecordIndex) -> Option<&Entry<T>> {
        let entry = self.entries.get(index);
        invariant!(entry.is_some(), "every_record_index_has_an_entry");
        entry
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, index: RecordIndex) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(index);
        invariant!(entry.is_some(), "every_record_index_has_an_entry");
        entry
    }

    /// The entry of a record, unless its id is stale.
    pub(crate) fn find(&self, record: RecordId) -> Option<&Entry<T>> {
        let entry = self.entries.get(record.index)?;
        (entry.serial == record.serial && entry.state != State::Free).then_some(entry)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// The number of keys with a queue.
    pub(crate) fn keys(&self) -> usize {
        self.keys.len()
    }

    fn come_back(&mut self, index: RecordIndex, state: State) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        let old = std::mem::replace(&mut entry.state, state);
        entry.passing = Passing::No;
        let index_of_queue = entry.queue;
        self.count(old, state);
        if let Some(queue) = self.queues.get_mut(index_of_queue) {
            queue.out = queue.out.saturating_sub(1);
            if queue.kind == Kind::Free && state == State::Waiting {
                self.push_front(index_of_queue, index);
            }
        }
        self.settle(index_of_queue);
    }

    fn wait_until(&mut self, index: RecordIndex, due_ms: i64) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.history.since_ms = due_ms;
            self.parked.push(due_ms, index, entry.serial);
        }
    }

    fn count(&mut self, from: State, to: State) {
        for (state, up) in [(from, false), (to, true)] {
            let count = match state {
                State::InHandler => &mut self.counts.in_handler,
                State::Publishing => &mut self.counts.publishing,
                State::Parked | State::Unpublished => &mut self.counts.parked,
                State::Free | State::Staged | State::Waiting => continue,
            };
            *count = if up { *count + 1 } else { count.saturating_sub(1) };
        }
    }

    fn take_from(
        &mut self,
        index_of_queue: QueueIndex,
        max: usize,
        run_max: usize,
        out: &mut Vec<RecordIndex>,
    ) -> usize {
        let Some(queue) = self.queues.get(index_of_queue) else {
            return 0;
        };
        let kind = queue.kind;
        let most = if kind == Kind::Free { max } else { run_max };
        let mut index = queue.head;
        let mut taken = 0;
        while taken < most
            && let Some(entry) = self.entries.get_mut(index)
            && entry.state == State::Waiting
        {
            entry.state = State::InHandler;
            let next = entry.next;
            if kind == Kind::Free {
                self.unlink(index_of_queue, index);
            }
            out.push(index);
            taken += 1;
            index = next;
        }
        self.counts.in_handler += taken as u64;
        if let Some(queue) = self.queues.get_mut(index_of_queue) {
            queue.out += taken as u32;
        }
        self.settle(index_of_queue);
        taken
    }

    /// Makes a queue ready if its first record can be handed out, or removes it if it is an empty queue of a key.
    fn settle(&mut self, index: QueueIndex) {
        let Some(queue) = self.queues.get(index).copied() else {
            return;
        };
        if queue.ready {
            return;
        }
        let head_waits = self
            .entries
            .get(queue.head)
            .is_some_and(|entry| entry.state == State::Waiting);
        if head_waits && (queue.kind == Kind::Free || queue.out == 0) {
            return self.push_ready(index);
        }
        if let Kind::Keyed { hash } = queue.kind
            && queue.head == Index::NONE
            && queue.out == 0
            && queue.sent == Index::NONE
        {
            self.keys.remove(hash, index);
            self.queues.give_back(index);
        }
    }

    /// Takes a record out of its queue.
    fn leave(&mut self, queue: QueueIndex, index: RecordIndex, state: State) {
        let Some(entry) = self.queues.get_mut(queue) else {
            return;
        };
        if matches!(state, State::InHandler | State::Publishing | State::Unpublished) {
            entry.out = entry.out.saturating_sub(1);
            if entry.kind == Kind::Free {
                return;
            }
        }
        if state == State::Parked && entry.kind == Kind::Free {
            return;
        }
        let was_head = entry.head == index;
        self.unlink(queue, index);
        if was_head && state == State::Waiting {
            self.unready(queue);
        }
    }

    /// The queue of a record, which counts as a single one from now on.
    fn queue_for(&mut self, index: RecordIndex) -> Option<QueueIndex> {
        let entry = self.entries.get(index)?;
        let partition = entry.partition;
        let found = self.partitions.get_mut(partition)?;
        found.singles += 1;
        let found = *found;
        let key = entry.payload.as_ref().and_then(Keyed::key);
        Some(match self.key_hash(partition, &found, key) {
            Some(hash) => self.queue_of_hash(partition, hash),
            None => found.main,
        })
    }

    /// The hash that stands for a key: two keys with the same one, of 2^64, would only wait for each other. `None` if the key
    /// does not matter.
    fn key_hash(&self, partition: PartitionIndex, found: &PartitionQueues, key: Option<&[u8]>) -> Option<u64> {
        if found.order != Order::Key {
            return None;
        }
        let seed = self.seed ^ (partition.position() as u64) << 32;
        match (key, found.null_key) {
            (Some(key), _) => Some(hash(seed, key)),
            (None, NullKey::Serial) => Some(!hash(seed, &[])),
            (None, NullKey::Unordered) => None,
        }
    }

    fn queue_of_hash(&mut self, partition: PartitionIndex, hash: u64) -> QueueIndex {
        let queues = &self.queues;
        let is_it = |queue: QueueIndex| queues.get(queue).is_some_and(|queue| queue.partition == partition);
        self.keys.find(hash, is_it).unwrap_or_else(|| {
            let queue = self.new_queue(partition, Kind::Keyed { hash });
            self.keys.insert(hash, queue);
            queue
        })
    }

    fn new_queue(&mut self, partition: PartitionIndex, kind: Kind) -> QueueIndex {
        let queue = Queue {
            partition,
            kind,
            head: Index::NONE,
            tail: Index::NONE,
            out: 0,
            sent: Index::NONE,
            ready: false,
            prev_ready: Index::NONE,
            next_ready: Index::NONE,
        };
        let index = self.queues.take(|| queue);
        if let Some(place) = self.queues.get_mut(index) {
            *place = queue;
        }
        index
    }

    fn push_back(&mut self, index_of_queue: QueueIndex, index: RecordIndex) {
        let Some(queue) = self.queues.get_mut(index_of_queue) else {
            return;
        };
        let before = std::mem::replace(&mut queue.tail, index);
        if before == Index::NONE {
            queue.head = index;
        }
        if let Some(entry) = self.entries.get_mut(before) {
            entry.next = index;
        }
        if let Some(entry) = self.entries.get_mut(index) {
            (entry.prev, entry.next) = (before, Index::NONE);
        }
    }

    fn push_front(&mut self, index_of_queue: QueueIndex, index: RecordIndex) {
        let Some(queue) = self.queues.get_mut(index_of_queue) else {
            return;
        };
        let after = std::mem::replace(&mut queue.head, index);
        if after == Index::NONE {
            queue.tail = index;
        }
        if let Some(entry) = self.entries.get_mut(after) {
            entry.prev = index;
        }
        if let Some(entry) = self.entries.get_mut(index) {
            (entry.prev, entry.next) = (Index::NONE, after);
        }
    }

    fn unlink(&mut self, index_of_queue: QueueIndex, index: RecordIndex) {
        let Some(entry) = self.entries.get_mut(index) else {
            return;
        };
        let (prev, next) = (entry.prev, entry.next);
        (entry.prev, entry.next) = (Index::NONE, Index::NONE);
        if let Some(entry) = self.entries.get_mut(prev) {
            entry.next = next;
        }
        if let Some(entry) = self.entries.get_mut(next) {
            entry.prev = prev;
        }
        if let Some(queue) = self.queues.get_mut(index_of_queue) {
            if queue.head == index {
                queue.head = next;
            }
            if queue.tail == index {
                queue.tail = prev;
            }
        }
    }

    fn push_ready(&mut self, index: QueueIndex) {
        let Some(queue) = self.queues.get_mut(index) else {
            return;
        };
        let partition = queue.partition;
        let Some(found) = self.partitions.get_mut(partition) else {
            return;
        };
        let before = std::mem::replace(&mut found.ready_tail, index);
        if before == Index::NONE {
            found.ready_head = index;
        }
        queue.ready = true;
        (queue.prev_ready, queue.next_ready) = (before, Index::NONE);
        if let Some(queue) = self.queues.get_mut(before) {
            queue.next_ready = index;
        }
        self.give_turn(partition);
    }

    fn pop_ready(&mut self, partition: PartitionIndex) -> Option<QueueIndex> {
        let index = self.partitions.get(partition)?.ready_head;
        self.queues.get(index)?;
        self.unready(index);
        Some(index)
    }

    /// Takes a queue out of the list of ready ones.
    fn unready(&mut self, index: QueueIndex) {
        let Some(queue) = self.queues.get_mut(index).filter(|queue| queue.ready) else {
            return;
        };
        queue.ready = false;
        let (partition, prev, next) = (queue.partition, queue.prev_ready, queue.next_ready);
        if let Some(queue) = self.queues.get_mut(prev) {
            queue.next_ready = next;
        }
        if let Some(queue) = self.queues.get_mut(next) {
            queue.prev_ready = prev;
        }
        if let Some(found) = self.partitions.get_mut(partition) {
            if prev == Index::NONE {
                found.ready_head = next;
            }
            if next == Index::NONE {
                found.ready_tail = prev;
            }
        }
    }

    fn give_turn(&mut self, partition: PartitionIndex) {
        let Some(found) = self.partitions.get(partition) else {
            return;
        };
        let (handler, is_out) = (found.handler, found.in_turn || found.blocked);
        if is_out || (found.ready_head == Index::NONE && !self.is_run_ready(partition)) {
            return;
        }
        if let Some(found) = self.partitions.get_mut(partition) {
            found.in_turn = true;
        }
        if let Some(turns) = self.turns.get_mut(usize::from(handler.0)) {
            turns.push_back(partition);
        }
    }
}

#[cfg(test)]
mod tests;
