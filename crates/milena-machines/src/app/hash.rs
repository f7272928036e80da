//! A hash function of bytes.

const MULTIPLIER: u64 = 0x9fb2_1c65_1e98_df25;

/// Mixes by multiplying to 128 bits and folding them. With a secret seed, no client can craft keys that collide in a table;
/// with a fixed one it is a checksum. Commits have that checksum, so the result must never change.
pub(super) fn hash(seed: u64, bytes: &[u8]) -> u64 {
    // Odd, and with bits in both halves.
    let key = fold(seed ^ 0x2d35_8dcc_aa6c_78a5, MULTIPLIER) | 1 << 63 | 1;
    let mut state = key ^ bytes.len() as u64;
    let (chunks, rest) = bytes.as_chunks::<8>();
    for chunk in chunks {
        state = fold(state ^ u64::from_le_bytes(*chunk), key);
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    fold(fold(state ^ u64::from_le_bytes(last), key), MULTIPLIER)
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0x8bb8_4b93_962e_acc9) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commits of older versions have it.
    #[test]
    fn the_checksum_of_a_text_is_the_same_for_ever() {
        assert_eq!(hash(0, b"milena"), 5_459_564_849_869_950_743);
        assert_ne!(hash(0, b""), hash(0, b"\0"));
        assert_ne!(hash(0, b"12345678"), hash(0, b"12345678\0"));
        assert_ne!(hash(1, b"key"), hash(2, b"key"));
    }

    #[test]
    fn every_bit_changes_about_half_of_the_hash() {
        let bytes = [7_u8; 20];
        let plain = hash(42, &bytes);
        for bit in 0..160 {
            let mut other = bytes;
            other[bit / 8] ^= 1 << (bit % 8);
            let changed = (plain ^ hash(42, &other)).count_ones();
            assert!((12..=52).contains(&changed), "bit {bit} changes {changed}");
        }
    }
}
