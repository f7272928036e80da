//! The last offset of every key in the dirty part of a log.
//!
//! Keys are stored as 128-bit hashes, as in Kafka: among a billion keys, the chance of a collision is 1 to 10^20,
//! far below that of a disk error. A producer that constructs a collision can only overwrite values of a topic that
//! it may write to anyway.

use twox_hash::XxHash3_128;

/// A hash table with open addressing: no allocation per key. It starts small, because a small table stays in the
/// processor's caches, and grows in few steps.
pub(super) struct KeyMap {
    /// Two halves of a hash, and the offset plus one: zero is an empty slot.
    slots: Vec<[u64; 3]>,
    slots_max: usize,
    len: usize,
}

/// Initial slots of a larger table.
const SLOTS_FIRST: usize = 32 << 10;
/// Growth factor. While the table is moved, the old one takes memory too.
const GROWTH: usize = 8;

impl KeyMap {
    const SLOT_SIZE: usize = size_of::<[u64; 3]>();

    /// A map of at most `bytes_max`, or of less if it is for few bytes of records only.
    pub(super) fn new(bytes_max: usize, record_bytes: u64) -> Self {
        // Records of fewer bytes are rare enough; otherwise another round of compaction follows.
        let records = usize::try_from(record_bytes / 4).unwrap_or(usize::MAX);
        let slots_max = (bytes_max / Self::SLOT_SIZE).min(records).max(16);
        let mut first = slots_max;
        while first > SLOTS_FIRST {
            first = first.div_ceil(GROWTH);
        }
        Self {
            slots: vec![[0; 3]; first],
            slots_max,
            len: 0,
        }
    }

    /// Stores the offset of a key; returns `false` if the table is full.
    pub(super) fn insert(&mut self, key: &[u8], offset: i64) -> bool {
        let (high, low) = hash(key);
        let mut place = self.place(high, low);
        let is_new = self.slots.get(place).is_some_and(|slot| slot[2] == 0);
        // A table that is fuller is a slow one.
        if is_new && self.len >= self.slots.len() / 4 * 3 {
            if self.slots.len() == self.slots_max {
                return false;
            }
            self.resize((self.slots.len() * GROWTH).min(self.slots_max));
            place = self.place(high, low);
        }
        let Some(slot) = self.slots.get_mut(place) else {
            return false;
        };
        *slot = [high, low, offset.cast_unsigned().wrapping_add(1)];
        self.len += usize::from(is_new);
        true
    }

    /// Doubles the capacity.
    pub(super) fn grow(&mut self) {
        self.slots_max *= 2;
        self.resize(self.slots_max);
    }

    fn resize(&mut self, count: usize) {
        let before = std::mem::replace(&mut self.slots, vec![[0; 3]; count]);
        for slot in before.into_iter().filter(|slot| slot[2] != 0) {
            let place = self.place(slot[0], slot[1]);
            if let Some(free) = self.slots.get_mut(place) {
                *free = slot;
            }
        }
    }

    /// The last offset that has the key, if it is known.
    pub(super) fn last_offset(&self, key: &[u8]) -> Option<i64> {
        let (high, low) = hash(key);
        let slot = self.slots.get(self.place(high, low))?;
        slot[2].checked_sub(1).map(u64::cast_signed)
    }

    /// Index of the slot of this hash, or of the free slot for it. There is one, since the table is never full.
    fn place(&self, high: u64, low: u64) -> usize {
        let mut place = ((u128::from(high) * self.slots.len() as u128) >> 64) as usize;
        loop {
            match self.slots.get(place) {
                Some(slot) if slot[2] == 0 || (slot[0] == high && slot[1] == low) => return place,
                Some(_) => place += 1,
                None => place = 0,
            }
        }
    }
}

fn hash(key: &[u8]) -> (u64, u64) {
    let hash = XxHash3_128::oneshot(key);
    ((hash >> 64) as u64, hash as u64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn it_agrees_with_a_plain_map_until_it_is_full_and_after_it_has_grown() {
        let mut map = KeyMap::new(1_000 * KeyMap::SLOT_SIZE, u64::MAX);
        let mut plain = BTreeMap::new();
        for offset in 0..2_000i64 {
            let key = (offset * offset % 1_013).to_be_bytes();
            assert!(map.insert(&key, offset));
            plain.insert(key, offset);
        }
        let others = (10_000..20_000i64).map(i64::to_be_bytes);
        let refused = others.take_while(|key| map.insert(key, 9)).count();
        assert_eq!(refused + plain.len(), 750);
        let known = *plain.keys().next().unwrap();
        assert!(map.insert(&known, 5_000), "a key that is there needs no room");
        plain.insert(known, 5_000);
        map.grow();
        assert!(map.insert(b"more", 0));
        for (key, offset) in plain {
            assert_eq!(map.last_offset(&key), Some(offset));
        }
        assert_eq!(map.last_offset(b"another"), None);
        assert_eq!(map.last_offset(b"more"), Some(0));
    }

    #[test]
    fn it_begins_small_and_has_all_its_room_in_the_end() {
        let count = 2 * GROWTH * SLOTS_FIRST;
        let mut map = KeyMap::new(count * KeyMap::SLOT_SIZE, u64::MAX);
        assert!(map.slots.len() <= SLOTS_FIRST);
        let keys = || (0..i64::MAX).map(|number| (number, number.to_be_bytes()));
        let taken = keys().take_while(|(number, key)| map.insert(key, *number)).count();
        assert_eq!((taken, map.slots.len()), (count / 4 * 3, count));
        for (number, key) in keys().take(taken) {
            assert_eq!(map.last_offset(&key), Some(number));
        }
    }
}
