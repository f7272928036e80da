//! Records that others have passed: the producer has taken their output, and has not acknowledged it yet.
//!
//! They wait in a queue of their own, by offset, and are done in that order. If one is not published after all, the records
//! that passed it are queued behind it again.

use super::{Keyed, Kind, Passing, Queues, State};
use crate::app::{
    Publish, PublishResult, RecordId,
    ids::{Index, QueueIndex, RecordIndex},
};

impl<T: Keyed> Queues<T> {
    /// Lets the records behind one go on while it is published. It waits among those that were passed, by offset.
    pub(crate) fn pass(&mut self, index: RecordIndex) {
        let Some(entry) = self.entries.get(index) else { return };
        let (at, partition) = (entry.queue, entry.partition);
        let is_plain = entry.state == State::Publishing && !entry.is_run && entry.passing == Passing::No;
        let Some(queue) = self.queues.get(at).filter(|queue| is_plain && queue.kind != Kind::Free) else {
            return;
        };
        let mut sent = queue.sent;
        if sent == Index::NONE {
            sent = self.new_queue(partition, Kind::Free);
        }
        self.unlink(at, index);
        self.insert_by_offset(sent, index);
        if let Some(entry) = self.entries.get_mut(index) {
            entry.passing = Passing::Sent(None);
        }
        if let Some(queue) = self.queues.get_mut(at) {
            queue.sent = sent;
            queue.out = queue.out.saturating_sub(1);
        }
        self.settle(at);
    }

    /// Passes a record whose output was settled before the producer was known to have taken it, if one before it was passed
    /// and is not settled yet: it must not be done first, else a failure of the one before would change their order.
    pub(crate) fn pass_behind_others(&mut self, index: RecordIndex) -> bool {
        let queue = self.entries.get(index).and_then(|entry| self.queues.get(entry.queue));
        if queue.is_none_or(|queue| queue.sent == Index::NONE) {
            return false;
        }
        self.pass(index);
        self.entries
            .get(index)
            .is_some_and(|entry| matches!(entry.passing, Passing::Sent(_)))
    }

    /// Inserts a record by offset, searching from the end: records of one call may be taken out of order.
    fn insert_by_offset(&mut self, at: QueueIndex, index: RecordIndex) {
        let Some(offset) = self.entries.get(index).map(|entry| entry.offset) else {
            return;
        };
        let mut before = self.queues.get(at).map_or(Index::NONE, |queue| queue.tail);
        let mut after: RecordIndex = Index::NONE;
        while let Some(entry) = self.entries.get(before).filter(|entry| entry.offset > offset) {
            after = before;
            before = entry.prev;
        }
        if after == Index::NONE {
            return self.push_back(at, index);
        }
        if before == Index::NONE {
            return self.push_front(at, index);
        }
        for (one, two) in [(before, index), (index, after)] {
            if let Some(entry) = self.entries.get_mut(one) {
                entry.next = two;
            }
            if let Some(entry) = self.entries.get_mut(two) {
                entry.prev = one;
            }
        }
    }

    /// The first passed record of the queue of `index`, with its result if that is known.
    pub(crate) fn first_sent(&self, index: RecordIndex) -> Option<(RecordId, PublishResult)> {
        let queue = self.queues.get(self.entries.get(index)?.queue)?;
        let first = self.queues.get(queue.sent)?.head;
        let entry = self.entries.get(first)?;
        let Passing::Sent(Some(result)) = entry.passing else {
            return None;
        };
        let serial = entry.serial;
        Some((RecordId { index: first, serial }, result))
    }

    /// The next passed record of the queue.
    pub(crate) fn next_sent(&self, index: RecordIndex) -> Option<RecordId> {
        let entry = self.entries.get(index)?;
        let next = self.entries.get(entry.next)?;
        let serial = next.serial;
        (matches!(entry.passing, Passing::Sent(_))).then_some(RecordId {
            index: entry.next,
            serial,
        })
    }

    /// Puts the first passed record, which was not published, back to the front of its queue, and those that passed it behind
    /// it. Records that are out are handled again when they come back. Returns those that wait from now on.
    pub(crate) fn recall(&mut self, first: RecordIndex) -> Vec<RecordIndex> {
        let Some(at) = self.entries.get(first).map(|entry| entry.queue) else {
            return vec![];
        };
        let sent = self.queues.get(at).map_or(Index::NONE, |queue| queue.sent);
        if sent == Index::NONE {
            return vec![];
        }
        self.unready(at);
        self.recall_out(at);
        let mut waiting = vec![];
        while let Some(last) = self
            .queues
            .get(sent)
            .map(|queue| queue.tail)
            .filter(|last| *last != Index::NONE)
        {
            self.unlink(sent, last);
            self.push_front(at, last);
            let Some(entry) = self.entries.get_mut(last) else { break };
            let passing = std::mem::replace(&mut entry.passing, Passing::No);
            if last != first && matches!(passing, Passing::Sent(Some(_))) {
                entry.state = State::Waiting;
                self.count(State::Publishing, State::Waiting);
                waiting.push(last);
                continue;
            }
            if last != first {
                entry.passing = Passing::Recalled;
            }
            if let Some(queue) = self.queues.get_mut(at) {
                queue.out += 1;
            }
        }
        self.queues.give_back(sent);
        if let Some(queue) = self.queues.get_mut(at) {
            queue.sent = Index::NONE;
        }
        waiting
    }

    /// Marks the records of a queue that are out to be handled again, unless they have no output.
    fn recall_out(&mut self, at: QueueIndex) {
        let mut index = self.queues.get(at).map_or(Index::NONE, |queue| queue.head);
        while let Some(entry) = self.entries.get_mut(index) {
            let emits = entry.history.publish == Some(Publish::Output);
            let is_out = match entry.state {
                State::InHandler => true,
                State::Publishing | State::Unpublished => emits,
                _ => false,
            };
            if is_out {
                entry.passing = Passing::Recalled;
            }
            index = entry.next;
        }
    }

    /// Takes a record out of the queue of passed ones.
    pub(super) fn leave_sent(&mut self, at: QueueIndex, index: RecordIndex) {
        let sent = self.queues.get(at).map_or(Index::NONE, |queue| queue.sent);
        self.unlink(sent, index);
        if self.queues.get(sent).is_some_and(|queue| queue.head == Index::NONE) {
            self.queues.give_back(sent);
            if let Some(queue) = self.queues.get_mut(at) {
                queue.sent = Index::NONE;
            }
        }
    }
}
