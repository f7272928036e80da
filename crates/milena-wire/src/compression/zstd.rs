//! Zstandard, always in one shot: the streaming decoder would allocate a window, whose size the input chooses. One
//! shot uses the output as window, and its context keeps its initial size.

use std::io::Cursor;

use zstd_safe::zstd_sys::ZSTD_ErrorCode;
use zstd_safe::{CCtx, DCtx, ErrorCode};

use super::{Codec, CompressError, DecompressError, Input, Output};

/// A block has a header of 3 bytes and yields at most 128 KiB.
const SMALLEST_BLOCK: usize = 3;
const LARGEST_BLOCK_OUTPUT: usize = 128 * 1024;
/// Approximate size of a decompression context in the library.
const CONTEXT_SIZE: usize = 96 * 1024;

pub(super) struct Decoder {
    /// `None` if there was no memory for it.
    context: Option<DCtx<'static>>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self {
            context: DCtx::try_create(),
        }
    }

    pub(super) fn decompress(&mut self, input: Input<'_>, output: &mut Output<'_>) -> Result<(), DecompressError> {
        // For the library no frame at all is valid too.
        if input.is_empty() {
            return Err(input.truncated("frame"));
        }
        let input = input.rest();
        let bound = output_bound(input, output)?;
        let allowance = output.allowance();
        let room = bound.min(allowance);
        output.reserve(room)?;
        let context = self.context.as_mut().ok_or(DecompressError::OutOfMemory {
            codec: Codec::Zstd,
            bytes: CONTEXT_SIZE,
        })?;
        match context.decompress(&mut at_end(output.buffer()), input) {
            // A reused buffer can have more capacity than the limit allows.
            Ok(length) if length > allowance => Err(output.too_large()),
            Ok(_) => Ok(()),
            Err(code) if is(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) && room < bound => {
                Err(output.too_large())
            }
            Err(code) => Err(damage(code)),
        }
    }
}

/// Bytes that the frames decompress to: exact if they have a content size, else an upper bound.
fn output_bound(input: &[u8], output: &Output<'_>) -> Result<usize, DecompressError> {
    let most_blocks = input.len() / SMALLEST_BLOCK;
    let possible = most_blocks.saturating_mul(LARGEST_BLOCK_OUTPUT);
    match zstd_safe::find_decompressed_size(input) {
        Ok(Some(claimed)) => {
            let claimed = usize::try_from(claimed).unwrap_or(usize::MAX);
            if claimed > output.allowance() {
                return Err(output.too_large());
            }
            if claimed > possible {
                return Err(output.corrupt("a frame claims more than it can expand to"));
            }
            Ok(claimed)
        }
        Ok(None) => {
            let bound = zstd_safe::decompress_bound(input).map_err(|_| first_damage(input))?;
            let bound = usize::try_from(bound).unwrap_or(usize::MAX);
            Ok(bound.min(possible))
        }
        Err(_) => Err(first_damage(input)),
    }
}

/// The functions for all frames do not report the kind of damage; this one does for the first frame.
fn first_damage(input: &[u8]) -> DecompressError {
    match zstd_safe::find_frame_compressed_size(input) {
        Err(code) => damage(code),
        Ok(_) => DecompressError::Corrupt {
            codec: Codec::Zstd,
            reason: "a frame after the first is damaged",
        },
    }
}

fn damage(code: ErrorCode) -> DecompressError {
    if is(code, ZSTD_ErrorCode::ZSTD_error_srcSize_wrong) {
        DecompressError::Truncated {
            codec: Codec::Zstd,
            part: "frame",
        }
    } else {
        DecompressError::Corrupt {
            codec: Codec::Zstd,
            reason: zstd_safe::get_error_name(code),
        }
    }
}

/// The library returns its errors negated.
fn is(code: ErrorCode, error: ZSTD_ErrorCode) -> bool {
    code == (error as usize).wrapping_neg()
}

/// The library writes a plain `Vec` from its start; through a cursor it
/// appends, into spare capacity only.
fn at_end(buffer: &mut Vec<u8>) -> Cursor<&mut Vec<u8>> {
    let end = buffer.len() as u64;
    let mut cursor = Cursor::new(buffer);
    cursor.set_position(end);
    cursor
}

pub(super) struct Encoder {
    /// `None` if there was no memory for it.
    context: Option<CCtx<'static>>,
    level: i32,
}

impl Encoder {
    pub(super) fn new(level: Option<i32>) -> Self {
        Self {
            context: CCtx::try_create(),
            level: level.unwrap_or(zstd_safe::CLEVEL_DEFAULT),
        }
    }

    pub(super) fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
        let failed = |reason| CompressError::Failed {
            codec: Codec::Zstd,
            reason,
        };
        out.reserve(zstd_safe::compress_bound(input.len()));
        let context = self.context.as_mut();
        let context = context.ok_or_else(|| failed("no memory for the context"))?;
        context
            .compress(&mut at_end(out), input, self.level)
            .map_err(|code| failed(zstd_safe::get_error_name(code)))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use zstd_safe::{CParameter, InBuffer, OutBuffer};

    use super::super::Decompressor;
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn decompress(input: &[u8]) -> Result<Vec<u8>, DecompressError> {
        let mut out = b"before".to_vec();
        Decompressor::new().decompress(Codec::Zstd, input, &mut out, LIMIT)?;
        Ok(out.split_off(6))
    }

    fn compress(content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new(None).compress(content, &mut out).unwrap();
        out
    }

    /// The form of Kafka's Java client: a stream, so no content size.
    fn compress_as_stream(content: &[u8], window_log: u32) -> Vec<u8> {
        let mut context = CCtx::create();
        context.set_parameter(CParameter::WindowLog(window_log)).unwrap();
        let mut out = vec![0; zstd_safe::compress_bound(content.len()) + 100];
        let mut output = OutBuffer::around(&mut out[..]);
        context
            .compress_stream(&mut output, &mut InBuffer::around(content))
            .unwrap();
        assert_eq!(context.end_stream(&mut output).unwrap(), 0);
        let length = output.pos();
        out.truncate(length);
        assert!(matches!(zstd_safe::get_frame_content_size(&out), Ok(None)));
        out
    }

    #[test]
    fn frames_without_content_size_and_skippable_frames_are_read() {
        let skippable = [&0x184d_2a50u32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
        let stream = compress_as_stream(b"two ", 20);
        let input = [&compress(b"one ")[..], &skippable, &stream, &compress(b"three")].concat();
        assert_eq!(decompress(&input).unwrap(), b"one two three");
        assert_eq!(decompress(&skippable).unwrap(), b"");
    }

    #[test]
    fn a_claimed_content_size_allocates_nothing() {
        // One segment, eight bytes of content size, one empty last block.
        let header = [0x28, 0xb5, 0x2f, 0xfd, 0xe0];
        for (claimed, limit) in [(1 << 40, LIMIT), (1 << 30, usize::MAX), (1 << 60, usize::MAX)] {
            let input = [&header[..], &u64::to_le_bytes(claimed), &[1, 0, 0]].concat();
            let mut out = Vec::new();
            let result = Decompressor::new().decompress(Codec::Zstd, &input, &mut out, limit);
            assert!(result.is_err());
            assert_eq!(out.capacity(), 0);
        }
    }

    #[test]
    fn a_claim_after_a_frame_without_one_allocates_little() {
        let huge = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x10, 1, 0, 0];
        let input = [&compress_as_stream(b"abc", 20)[..], &huge].concat();
        let mut out = Vec::new();
        let result = Decompressor::new().decompress(Codec::Zstd, &input, &mut out, usize::MAX);
        assert!(matches!(result, Err(DecompressError::Corrupt { .. })));
        assert!(out.capacity() <= input.len() * LARGEST_BLOCK_OUTPUT / SMALLEST_BLOCK);
    }

    #[test]
    fn a_bomb_without_content_size_stops_at_the_limit() {
        let bomb = compress_as_stream(&vec![0; 64 << 20], 20);
        let mut out = Vec::new();
        let result = Decompressor::new().decompress(Codec::Zstd, &bomb, &mut out, LIMIT);
        assert_eq!(
            result,
            Err(DecompressError::TooLarge {
                codec: Codec::Zstd,
                limit: LIMIT
            })
        );
        assert!(out.capacity() <= LIMIT);
    }

    #[test]
    fn the_context_does_not_grow_with_the_window() {
        let stream = compress_as_stream(&vec![7; 1 << 20], 27);
        let mut decoder = Decoder::new();
        let before = decoder.context.as_ref().unwrap().sizeof();
        let mut out = Vec::new();
        decoder
            .decompress(
                Input::new(Codec::Zstd, &stream),
                &mut Output::new(Codec::Zstd, &mut out, LIMIT),
            )
            .unwrap();
        assert_eq!(out.len(), 1 << 20);
        let after = decoder.context.as_ref().unwrap().sizeof();
        assert_eq!(before, after);
        assert!(after.abs_diff(CONTEXT_SIZE) < 8 * 1024, "{after}");
    }

    #[test]
    fn a_reused_buffer_does_not_lift_the_limit() {
        let content = vec![1; 1000];
        for input in [compress(&content), compress_as_stream(&content, 20)] {
            let mut out = Vec::with_capacity(1 << 20);
            let result = Decompressor::new().decompress(Codec::Zstd, &input, &mut out, 999);
            assert!(matches!(result, Err(DecompressError::TooLarge { .. })));
            assert!(out.is_empty());
        }
    }
}
