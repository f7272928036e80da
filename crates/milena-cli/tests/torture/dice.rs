//! Chance that follows from a seed. What processes and brokers make of it depends on the machine, so a seed tells which
//! blows fall, not what they hit.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
    time::Duration,
};

pub fn any_seed() -> u64 {
    RandomState::new().hash_one("seed") >> 32
}

/// `SplitMix64`.
pub struct Dice(pub u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn number(&mut self, range: Range<usize>) -> usize {
        range.start + usize::try_from(self.next() % u64::try_from(range.len()).unwrap()).unwrap()
    }

    pub fn millis(&mut self, range: Range<usize>) -> Duration {
        Duration::from_millis(u64::try_from(self.number(range)).unwrap())
    }
}
