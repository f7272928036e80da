//! Hash functions of partitioners, identical to those of other clients.

use std::hash::{DefaultHasher, Hasher};

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;

/// Kafka's `Utils.murmur2`.
pub fn murmur2(key: &[u8]) -> u32 {
    let mut hash = begin(key.len());
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        hash = mix(hash, u32::from_le_bytes(*word));
    }
    let tail = match *rest {
        [a] => [a, 0, 0, 0],
        [a, b] => [a, b, 0, 0],
        [a, b, c] => [a, b, c, 0],
        _ => return finish(hash, 0, true),
    };
    finish(hash, u32::from_le_bytes(tail), false)
}

/// [`murmur2`] of bytes that are not contiguous.
pub(super) fn murmur2_of(bytes: impl Iterator<Item = u8> + Clone) -> u32 {
    let mut hash = begin(bytes.clone().count());
    let (mut word, mut filled) = (0, 0);
    for byte in bytes {
        word |= u32::from(byte) << (8 * filled);
        filled += 1;
        if filled == 4 {
            hash = mix(hash, word);
            (word, filled) = (0, 0);
        }
    }
    finish(hash, word, filled == 0)
}

/// Java's lengths have 32 bits.
fn begin(len: usize) -> u32 {
    SEED ^ (len as u32)
}

fn mix(hash: u32, word: u32) -> u32 {
    let word = word.wrapping_mul(MULTIPLIER);
    let word = (word ^ (word >> 24)).wrapping_mul(MULTIPLIER);
    hash.wrapping_mul(MULTIPLIER) ^ word
}

/// `tail` has the bytes after the last whole word.
fn finish(hash: u32, tail: u32, is_whole: bool) -> u32 {
    let hash = if is_whole {
        hash
    } else {
        (hash ^ tail).wrapping_mul(MULTIPLIER)
    };
    let hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// librdkafka's FNV-1a: interpreted as a signed number and made positive, as Sarama does.
pub fn fnv1a(key: &[u8]) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in key {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    hash.cast_signed().unsigned_abs()
}

/// A 64-bit hash for internal use, the same in every run.
pub(super) fn of_bytes(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}
