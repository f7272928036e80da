//! The most frequent of many, in little memory (Space-Saving, by Metwally, Agrawal and El Abbadi).

use std::collections::HashMap;

/// Counts what is frequent in a stream, with so many counters. Who comes without a counter takes over the smallest one.
/// So a count is never too small, and too large by at most that smallest; whatever makes up more than one part in
/// `capacity` of the stream has a counter.
#[derive(Debug)]
pub(super) struct Sketch {
    capacity: usize,
    slots: Vec<Slot>,
    /// The slots as a heap, with the smallest count first.
    heap: Vec<usize>,
    by_hash: HashMap<u64, usize>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u64,
    count: u64,
    /// How much of the count may have been another's.
    error: u64,
    /// Where it is in the heap.
    place: usize,
}

/// What is known about something that was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// The number of its counter, for those who keep something beside it.
    pub(super) slot: usize,
    /// It had no counter before, or had lost it.
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
            // With half of it free, what was removed is cleared away in place and the map never grows.
            by_hash: HashMap::with_capacity(2 * capacity),
        }
    }

    /// Counts one more of what has this hash.
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
            count, error, place, ..
        } = *counter;
        self.sink(place);
        Counted {
            slot,
            is_new: known.is_none(),
            at_least: count - error,
            at_most: count,
        }
    }

    /// What has a counter, the most frequent first.
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

    /// Forgets everything, and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.heap.clear();
        self.by_hash.clear();
    }

    /// A counter that is new has the smallest count, but stands last until it is counted up and others sink below it.
    fn begin(&mut self, hash: u64) -> usize {
        let slot = self.slots.len();
        let place = self.heap.len();
        self.slots.push(Slot {
            hash,
            count: 0,
            error: 0,
            place,
        });
        self.heap.push(slot);
        self.by_hash.insert(hash, slot);
        self.rise(place);
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

    fn sink(&mut self, mut place: usize) {
        loop {
            let children = [2 * place + 1, 2 * place + 2].into_iter();
            let smallest = children
                .filter(|child| *child < self.heap.len())
                .min_by_key(|child| self.count_at(*child));
            match smallest {
                Some(child) if self.count_at(child) < self.count_at(place) => {
                    self.swap(place, child);
                    place = child;
                }
                _ => return,
            }
        }
    }

    fn rise(&mut self, mut place: usize) {
        while place > 0 && self.count_at(place) < self.count_at((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn count_at(&self, place: usize) -> u64 {
        let slot = self.heap.get(place).and_then(|slot| self.slots.get(*slot));
        slot.map_or(0, |slot| slot.count)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            if let Some(slot) = self.heap.get(place).and_then(|slot| self.slots.get_mut(*slot)) {
                slot.place = place;
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

    /// The promises of the algorithm, against counts of everything.
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
                // Some are much more frequent than others.
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
