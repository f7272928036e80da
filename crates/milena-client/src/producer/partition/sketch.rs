//! A sketch of the most frequent items of a stream (Space-Saving, by Metwally, Agrawal and El Abbadi).

use std::collections::HashMap;

/// Counts frequent items with a fixed number of counters. An item without a counter takes over the smallest one. A
/// count is never too small, and too large by at most the smallest count; every item with more than `1/capacity` of the
/// stream has a counter.
#[derive(Debug)]
pub(super) struct Sketch {
    capacity: usize,
    slots: Vec<Slot>,
    /// The slots as a heap, smallest count first.
    heap: Vec<usize>,
    by_hash: HashMap<u64, usize>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    count: u64,
    /// The part of the count that may belong to earlier items.
    error: u64,
    /// Its index in the heap.
    index: usize,
}

/// The count of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// The index of its counter, for data kept beside it.
    pub(super) slot: usize,
    /// Whether it had no counter before.
    pub(super) is_new: bool,
    pub(super) at_least: u64,
    pub(super) at_most: u64,
}

impl Sketch {
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Self {
            capacity,
            slots: Vec::with_capacity(capacity),
            heap: Vec::with_capacity(capacity),
            // At half load, removed entries are reused in place and the map never grows.
            by_hash: HashMap::with_capacity(2 * capacity),
        }
    }

    /// Counts an item by its hash.
    pub(super) fn add(&mut self, hash: u64) -> Counted {
        let known = self.by_hash.get(&hash).copied();
        let slot = match known {
            Some(slot) => slot,
            None if self.slots.len() < self.capacity => self.begin(hash),
            None => self.take_over(hash),
        };
        let Some(counter) = self.slots.get_mut(slot) else {
            return Counted::NOTHING;
        };
        counter.count += 1;
        let Slot {
            count, error, index, ..
        } = *counter;
        self.sink(index);
        Counted {
            slot,
            is_new: known.is_none(),
            at_least: count - error,
            at_most: count,
        }
    }

    /// All items with a counter, most frequent first.
    pub(super) fn counted(&self) -> Vec<Counted> {
        let slots = self.slots.iter().enumerate();
        let mut counted: Vec<Counted> = slots
            .map(|(slot, counter)| Counted {
                slot,
                is_new: false,
                at_least: counter.count - counter.error,
                at_most: counter.count,
            })
            .collect();
        counted.sort_by_key(|counted| (std::cmp::Reverse(counted.at_most), counted.slot));
        counted
    }

    /// Removes all items and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.heap.clear();
        self.by_hash.clear();
    }

    /// Adds a counter with count 0.
    fn begin(&mut self, hash: u64) -> usize {
        let slot = self.slots.len();
        let index = self.heap.len();
        self.slots.push(Slot {
            hash,
            count: 0,
            error: 0,
            index,
        });
        self.heap.push(slot);
        self.by_hash.insert(hash, slot);
        self.rise(index);
        slot
    }

    fn take_over(&mut self, hash: u64) -> usize {
        let slot = self.heap.first().copied().unwrap_or_default();
        if let Some(counter) = self.slots.get_mut(slot) {
            self.by_hash.remove(&counter.hash);
            counter.hash = hash;
            counter.error = counter.count;
            self.by_hash.insert(hash, slot);
        }
        slot
    }

    fn sink(&mut self, mut index: usize) {
        loop {
            let children = [2 * index + 1, 2 * index + 2].into_iter();
            let smallest = children
                .filter(|child| *child < self.heap.len())
                .min_by_key(|child| self.count_at(*child));
            match smallest {
                Some(child) if self.count_at(child) < self.count_at(index) => {
                    self.swap(index, child);
                    index = child;
                }
                _ => return,
            }
        }
    }

    fn rise(&mut self, mut index: usize) {
        while index > 0 && self.count_at(index) < self.count_at((index - 1) / 2) {
            self.swap(index, (index - 1) / 2);
            index = (index - 1) / 2;
        }
    }

    fn count_at(&self, index: usize) -> u64 {
        let slot = self.heap.get(index).and_then(|slot| self.slots.get(*slot));
        slot.map_or(0, |slot| slot.count)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for index in [a, b] {
            if let Some(slot) = self.heap.get(index).and_then(|slot| self.slots.get_mut(*slot)) {
                slot.index = index;
            }
        }
    }
}

impl Counted {
    const NOTHING: Self = Self {
        slot: 0,
        is_new: false,
        at_least: 0,
        at_most: 0,
    };
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use milena_machines::Random;

    use super::*;

    #[test]
    fn counts_are_exact_while_there_is_room() {
        let mut sketch = Sketch::new(4);
        for hash in [1, 2, 1, 3, 1, 2] {
            sketch.add(hash);
        }
        let counts: Vec<_> = sketch.counted().iter().map(|one| (one.at_least, one.at_most)).collect();
        assert_eq!(counts, [(3, 3), (2, 2), (1, 1)]);
        sketch.clear();
        assert!(sketch.counted().is_empty());
        assert!(sketch.add(1).is_new);
    }

    /// The guarantees of the algorithm, compared with exact counts.
    #[test]
    fn bounds_hold_and_what_is_frequent_is_found() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let capacity = 1 + random.below(20);
            let keys = 1 + random.below(60);
            let mut sketch = Sketch::new(usize::try_from(capacity).unwrap());
            let mut truth: BTreeMap<u64, u64> = BTreeMap::new();
            let total = 1 + random.below(3000);
            for _ in 0..total {
                // Skewed: some keys are much more frequent than others.
                let key = random.below(keys).min(random.below(keys)).min(random.below(keys));
                *truth.entry(key).or_default() += 1;
                let counted = sketch.add(key);
                let actual = truth[&key];
                assert!((counted.at_least..=counted.at_most).contains(&actual), "seed {seed}");
            }
            let sum: u64 = sketch.counted().iter().map(|one| one.at_most).sum();
            assert_eq!(sum, total, "seed {seed}: every one counts once");
            for (key, count) in truth {
                if count * capacity > total {
                    assert!(sketch.by_hash.contains_key(&key), "seed {seed}: {key} of {count}");
                }
            }
        }
    }
}
