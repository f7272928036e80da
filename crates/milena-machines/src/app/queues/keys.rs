//! The queues of keys.

use crate::app::ids::{Index, QueueIndex};

/// A hash table with open addressing. It is never iterated, so the order of its slots, which depends on the seed, does not
/// influence any output.
#[derive(Debug, Default)]
pub(super) struct KeyTable {
    /// A power of two of slots, at most half of them taken.
    slots: Vec<Slot>,
    taken: usize,
}

/// A hash and the queue that it leads to; `Index::NONE` if the slot is free.
#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    queue: QueueIndex,
}

const FREE: Slot = Slot {
    hash: 0,
    queue: Index::NONE,
};

impl KeyTable {
    /// The queue with this hash that `is_it`.
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(QueueIndex) -> bool) -> Option<QueueIndex> {
        let mut at = self.home(hash);
        while let Some(slot) = self.taken_at(at) {
            if slot.hash == hash && is_it(slot.queue) {
                return Some(slot.queue);
            }
            at = self.next(at);
        }
        None
    }

    /// Adds a queue that is not in the table.
    pub(super) fn insert(&mut self, hash: u64, queue: QueueIndex) {
        if (self.taken + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.put(Slot { hash, queue });
        self.taken += 1;
    }

    pub(super) fn remove(&mut self, hash: u64, queue: QueueIndex) {
        let mut hole = self.home(hash);
        loop {
            match self.taken_at(hole) {
                Some(slot) if slot.queue == queue && slot.hash == hash => break,
                Some(_) => hole = self.next(hole),
                None => return,
            }
        }
        self.taken -= 1;
        // Later slots move into the hole, unless that would be before their home.
        let mut at = self.next(hole);
        while let Some(slot) = self.taken_at(at) {
            let home = self.home(slot.hash);
            if self.distance(home, at) >= self.distance(hole, at) {
                self.set(hole, slot);
                hole = at;
            }
            at = self.next(at);
        }
        self.set(hole, FREE);
    }

    pub(super) fn len(&self) -> usize {
        self.taken
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(16);
        let old = std::mem::replace(&mut self.slots, vec![FREE; size]);
        for slot in old.into_iter().filter(|slot| slot.queue != Index::NONE) {
            self.put(slot);
        }
    }

    fn put(&mut self, slot: Slot) {
        let mut at = self.home(slot.hash);
        while self.taken_at(at).is_some() {
            at = self.next(at);
        }
        self.set(at, slot);
    }

    fn taken_at(&self, at: usize) -> Option<Slot> {
        self.slots.get(at).copied().filter(|slot| slot.queue != Index::NONE)
    }

    fn set(&mut self, at: usize, slot: Slot) {
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
        }
    }

    fn home(&self, hash: u64) -> usize {
        hash as usize & self.slots.len().wrapping_sub(1)
    }

    fn next(&self, at: usize) -> usize {
        (at + 1) & self.slots.len().wrapping_sub(1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.slots.len().wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Random;

    /// With few hashes all keys collide, and every hole is filled.
    #[test]
    fn it_agrees_with_a_map_in_every_history() {
        for (seed, hashes) in [(1, 4), (2, 40), (3, 1_000)] {
            let mut random = Random::new(seed);
            let mut table = KeyTable::default();
            let mut known = BTreeMap::new();
            for queue in (0..4_000).map(QueueIndex::at) {
                let hash = random.below(hashes) << 1;
                table.insert(hash, queue);
                known.insert(queue, hash);
                if known.len() > random.below(200) as usize {
                    let nth = random.below(known.len() as u64) as usize;
                    let (&queue, &hash) = known.iter().nth(nth).unwrap();
                    table.remove(hash, queue);
                    table.remove(hash, queue);
                    known.remove(&queue);
                    assert_eq!(table.find(hash, |found| found == queue), None);
                }
                assert_eq!(table.len(), known.len());
            }
            for (queue, hash) in known {
                assert_eq!(table.find(hash, |found| found == queue), Some(queue));
            }
        }
    }
}
