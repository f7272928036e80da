//! Records that others have passed: what they emitted is with the producer, and not acknowledged yet.
//!
//! A queue keeps them apart, in their order. They are done in that order too. If one is not published after all, those that
//! passed it get back in line behind it.

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

    /// Records of one call may be taken in another order than that of their offsets, so the place is looked for, from the end.
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

    /// The first that others of its queue have passed, if `index` is one of those, and what became of it.
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

    /// The one that passed another next.
    pub(crate) fn next_sent(&self, index: RecordIndex) -> Option<RecordId> {
        let entry = self.entries.get(index)?;
        let next = self.entries.get(entry.next)?;
        let serial = next.serial;
        (matches!(entry.passing, Passing::Sent(_))).then_some(RecordId {
            index: entry.next,
            serial,
        })
    }

    /// The first that others have passed is not published. It is first in line again, still being published, and those
    /// behind it follow: what is under way is handled again when it has come back. Gives those that wait at once.
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

    /// What is out of a queue is handled again, unless nothing is to be written for it.
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

    /// A record that others have passed is gone.
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
