//! Output of a decompressor, with its limit.

use super::{Codec, DecompressError};

/// The caller's buffer with its limit. All growth goes through here, so that no length in the input can allocate
/// more.
pub(super) struct Output<'a> {
    codec: Codec,
    buffer: &'a mut Vec<u8>,
    start: usize,
    limit: usize,
}

impl<'a> Output<'a> {
    pub(super) fn new(codec: Codec, buffer: &'a mut Vec<u8>, limit: usize) -> Self {
        let start = buffer.len();
        Self {
            codec,
            buffer,
            start,
            limit,
        }
    }

    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.buffer
    }

    pub(super) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// The bytes appended since the buffer had `earlier` bytes.
    pub(super) fn written_since(&self, earlier: usize) -> &[u8] {
        self.buffer.get(earlier..).unwrap_or_default()
    }

    /// Bytes that the limit still allows.
    pub(super) fn allowance(&self) -> usize {
        let appended = self.buffer.len().saturating_sub(self.start);
        self.limit.saturating_sub(appended)
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), DecompressError> {
        if bytes.len() > self.allowance() {
            return Err(self.too_large());
        }
        self.reserve(bytes.len())?;
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends `count` zero bytes and returns where they start: the decoders
    /// without unsafe code write only into initialized memory.
    pub(super) fn append_zeros(&mut self, count: usize) -> Result<usize, DecompressError> {
        self.reserve(count)?;
        let start = self.buffer.len();
        self.buffer.resize(start.saturating_add(count), 0);
        Ok(start)
    }

    /// Capacity grows by doubling, to make repeated growth cheap, but the
    /// doubling stops at the limit; `Vec` alone would overshoot it.
    pub(super) fn reserve(&mut self, additional: usize) -> Result<(), DecompressError> {
        let len = self.buffer.len();
        let needed = len.saturating_add(additional);
        let capacity = self.buffer.capacity();
        if needed <= capacity {
            return Ok(());
        }
        let most = self.start.saturating_add(self.limit);
        let target = capacity.saturating_mul(2).min(most).max(needed);
        self.buffer
            .try_reserve_exact(target.saturating_sub(len))
            .map_err(|_| DecompressError::OutOfMemory {
                codec: self.codec,
                bytes: target,
            })
    }

    pub(super) fn too_large(&self) -> DecompressError {
        DecompressError::TooLarge {
            codec: self.codec,
            limit: self.limit,
        }
    }

    pub(super) fn corrupt(&self, reason: &'static str) -> DecompressError {
        DecompressError::Corrupt {
            codec: self.codec,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_never_passes_the_limit() {
        let mut buffer = b"before".to_vec();
        let mut output = Output::new(Codec::None, &mut buffer, 1000);
        for _ in 0..10 {
            output.append(&[7; 100]).unwrap();
        }
        assert_eq!(
            output.append(&[7]),
            Err(DecompressError::TooLarge {
                codec: Codec::None,
                limit: 1000
            })
        );
        assert_eq!(buffer.len(), 1006);
        assert_eq!(buffer.capacity(), 1006);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        let mut buffer = Vec::new();
        let mut output = Output::new(Codec::None, &mut buffer, usize::MAX);
        assert!(matches!(
            output.reserve(usize::MAX),
            Err(DecompressError::OutOfMemory { .. })
        ));
    }
}
