//! Random numbers from a seed. The seed decides which faults are injected and when, not which requests they hit.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
    time::Duration,
};

pub fn any_seed() -> u64 {
    RandomState::new().hash_one("seed") >> 32
}

/// The `SplitMix64` generator.
pub struct Random(pub u64);

impl Random {
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
