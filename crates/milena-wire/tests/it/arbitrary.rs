//! Arbitrary values from a seed: the same seed yields the same values.

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{Uuid, tags::UnknownTags};

/// Pseudo-random numbers (SplitMix64).
pub struct Source(u64);

impl Source {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Mostly anything, often an edge.
    fn number(&mut self) -> i64 {
        match self.below(6) {
            0 => 0,
            1 => -1,
            2 => i64::MAX,
            3 => i64::MIN,
            _ => self.next() as i64,
        }
    }

    /// Mostly a few, sometimes enough for a length of two bytes.
    fn length(&mut self) -> usize {
        if self.below(16) == 0 {
            self.below(200)
        } else {
            self.below(4)
        }
    }

    pub fn unknown_tags(&mut self) -> UnknownTags {
        let mut tags = UnknownTags::default();
        if self.below(4) == 0 {
            for tag in 0..1 + self.below(3) {
                tags.push(10_000 + tag as u32, Arbitrary::arbitrary(self, 0));
            }
        }
        tags
    }
}

pub trait Arbitrary {
    /// A value that `version` can express.
    fn arbitrary(source: &mut Source, version: i16) -> Self;
}

macro_rules! integers {
    ($($ty:ty),*) => {
        $(impl Arbitrary for $ty {
            fn arbitrary(source: &mut Source, _: i16) -> Self {
                source.number() as Self
            }
        })*
    };
}

integers!(i8, i16, u16, i32, i64);

impl Arbitrary for bool {
    fn arbitrary(source: &mut Source, _: i16) -> Self {
        source.below(2) == 0
    }
}

impl Arbitrary for f64 {
    fn arbitrary(source: &mut Source, _: i16) -> Self {
        source.number() as Self / 8.0
    }
}

impl Arbitrary for Uuid {
    fn arbitrary(source: &mut Source, _: i16) -> Self {
        Self::from_bytes((u128::from(source.next()) << 64 | u128::from(source.next())).to_be_bytes())
    }
}

impl Arbitrary for ByteString {
    fn arbitrary(source: &mut Source, _: i16) -> Self {
        let length = source.length();
        let text: String = (0..length)
            .map(|_| ['a', 'Z', '.', 'é', '中', '🙂', '\0'][source.below(7)])
            .collect();
        Self::from(text)
    }
}

impl Arbitrary for Bytes {
    fn arbitrary(source: &mut Source, _: i16) -> Self {
        // Now and then enough to be passed along by reference.
        let length = if source.below(32) == 0 { 3000 } else { source.length() };
        (0..length).map(|_| source.next() as u8).collect()
    }
}

impl<T: Arbitrary> Arbitrary for Option<T> {
    fn arbitrary(source: &mut Source, version: i16) -> Self {
        (source.below(3) > 0).then(|| T::arbitrary(source, version))
    }
}

impl<T: Arbitrary> Arbitrary for Vec<T> {
    fn arbitrary(source: &mut Source, version: i16) -> Self {
        let length = source.below(4);
        (0..length).map(|_| T::arbitrary(source, version)).collect()
    }
}
