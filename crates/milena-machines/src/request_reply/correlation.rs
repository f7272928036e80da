//! Correlation ids.

use std::fmt;

/// Id of a request: 16 bytes that the reply repeats.
///
/// - 4 bytes: the epoch, a random number of the requester's process. A process ignores replies to its predecessor.
/// - 4 bytes: the slot of the request in the table of pending requests, so that a reply is found without a hash table.
/// - 8 bytes: a random nonce. A service that sees one request cannot guess the ids of others.
///
/// Numbers are big-endian.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorrelationId {
    pub(super) epoch: u32,
    pub(super) slot: u32,
    pub(super) nonce: u64,
}

impl CorrelationId {
    pub const BYTES: usize = 16;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let number = u128::from(self.epoch) << 96 | u128::from(self.slot) << 64 | u128::from(self.nonce);
        number.to_be_bytes()
    }

    /// Returns `None` if the bytes cannot be an id of a requester of this library.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = u128::from_be_bytes(bytes.try_into().ok()?);
        #[expect(clippy::cast_possible_truncation, reason = "each part takes its own bits")]
        Some(Self {
            epoch: (number >> 96) as u32,
            slot: (number >> 64) as u32,
            nonce: number as u64,
        })
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}{:08x}{:016x}", self.epoch, self.slot, self.nonce)
    }
}

impl fmt::Debug for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_bytes() {
        let id = CorrelationId {
            epoch: 0x0102_0304,
            slot: 0x0506_0708,
            nonce: 0x090a_0b0c_0d0e_0f10,
        };
        let bytes = id.to_bytes();
        assert_eq!(bytes, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        assert_eq!(CorrelationId::from_bytes(&bytes), Some(id));
        assert_eq!(id.to_string(), "0102030405060708090a0b0c0d0e0f10");
        for wrong in [&bytes[..15], &[0; 17], b""] {
            assert_eq!(CorrelationId::from_bytes(wrong), None);
        }
    }
}
