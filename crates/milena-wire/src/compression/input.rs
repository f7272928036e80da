//! Input of a decompressor, read with bounds checks.

use super::{Codec, DecompressError};

/// The remaining input. Every read names the part of the format it is for, so that the error about truncated input
/// names it too.
pub(super) struct Input<'a> {
    codec: Codec,
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) fn new(codec: Codec, rest: &'a [u8]) -> Self {
        Self { codec, rest }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, count: usize, part: &'static str) -> Result<&'a [u8], DecompressError> {
        let split = self.rest.split_at_checked(count);
        let (bytes, rest) = split.ok_or_else(|| self.truncated(part))?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self, part: &'static str) -> Result<[u8; N], DecompressError> {
        let split = self.rest.split_first_chunk();
        let (array, rest) = split.ok_or_else(|| self.truncated(part))?;
        self.rest = rest;
        Ok(*array)
    }

    pub(super) fn byte(&mut self, part: &'static str) -> Result<u8, DecompressError> {
        self.array(part).map(|[byte]| byte)
    }

    /// The bytes read since the rest was `earlier`.
    pub(super) fn read_since(&self, earlier: &'a [u8]) -> &'a [u8] {
        let count = earlier.len().saturating_sub(self.rest.len());
        earlier.get(..count).unwrap_or_default()
    }

    pub(super) fn truncated(&self, part: &'static str) -> DecompressError {
        DecompressError::Truncated {
            codec: self.codec,
            part,
        }
    }

    pub(super) fn corrupt(&self, reason: &'static str) -> DecompressError {
        DecompressError::Corrupt {
            codec: self.codec,
            reason,
        }
    }
}
