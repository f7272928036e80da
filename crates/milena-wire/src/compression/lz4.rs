//! The LZ4 frame format, read here block by block.

use lz4_flex::block::{self, CompressTable};
use twox_hash::XxHash32;

use super::{Codec, CompressError, DecompressError, Input, Output};

const FRAME_MAGIC: u32 = 0x184d_2204;
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;
const SKIPPABLE_MAGIC_MASK: u32 = 0xffff_fff0;
const STORED_BLOCK: u32 = 0x8000_0000;

/// A byte of a block that extends a length adds at most 255, and nothing in a
/// block expands more.
const MAX_EXPANSION: usize = 255;
/// Largest distance of a back reference.
const WINDOW: usize = 64 * 1024;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HeaderChecksum {
    Verify,
    Ignore,
}

pub(super) struct Decoder {
    /// One decompressed block. Its size is not known in advance, and memory must be initialized for the largest
    /// possible one: once here is cheaper than for each block at the end of the output, which then grows only
    /// by the real size.
    block: Vec<u8>,
}

impl Decoder {
    pub(super) fn new() -> Self {
        Self { block: Vec::new() }
    }

    /// Reads frames until the input ends. A frame without its end mark is an
    /// error, as it is for Kafka's Java reader.
    pub(super) fn decompress(
        &mut self,
        input: Input<'_>,
        header_checksum: HeaderChecksum,
        output: &mut Output<'_>,
    ) -> Result<(), DecompressError> {
        let result = decompress_frames(input, header_checksum, output, &mut self.block);
        // Larger blocks than Kafka's clients write are too rare to hold 4 MiB.
        self.block.truncate(BLOCK_SIZE);
        self.block.shrink_to(BLOCK_SIZE);
        result
    }
}

/// Checks the header of the first frame as Kafka's Java reader does, which is stricter than the format: no frame may come
/// before the data, and blocks may not refer to each other.
pub(super) fn check_start(mut input: Input<'_>) -> Result<(), DecompressError> {
    if u32::from_le_bytes(input.array("frame magic")?) != FRAME_MAGIC {
        return Err(input.corrupt("it does not begin with a frame of data"));
    }
    let frame = Frame::read_header(&mut input, HeaderChecksum::Verify)?;
    if frame.linked_blocks {
        return Err(DecompressError::Unsupported {
            codec: Codec::Lz4,
            feature: "blocks that refer to each other",
        });
    }
    Ok(())
}

fn decompress_frames(
    mut input: Input<'_>,
    header_checksum: HeaderChecksum,
    output: &mut Output<'_>,
    scratch: &mut Vec<u8>,
) -> Result<(), DecompressError> {
    loop {
        let magic = u32::from_le_bytes(input.array("frame magic")?);
        if magic == FRAME_MAGIC {
            let frame = Frame::read_header(&mut input, header_checksum)?;
            frame.decompress(&mut input, output, scratch)?;
        } else if magic & SKIPPABLE_MAGIC_MASK == SKIPPABLE_MAGIC {
            let length = u32::from_le_bytes(input.array("skippable frame")?);
            input.bytes(as_size(length), "skippable frame")?;
        } else {
            return Err(input.corrupt("no frame starts where one should"));
        }
        if input.is_empty() {
            return Ok(());
        }
    }
}

struct Frame {
    block_maximum: usize,
    linked_blocks: bool,
    block_checksums: bool,
    content_checksum: bool,
    content_size: Option<u64>,
}

impl Frame {
    fn read_header(input: &mut Input<'_>, header_checksum: HeaderChecksum) -> Result<Self, DecompressError> {
        const VERSION_MASK: u8 = 0xc0;
        const VERSION_1: u8 = 0x40;
        const INDEPENDENT_BLOCKS: u8 = 0x20;
        const BLOCK_CHECKSUMS: u8 = 0x10;
        const CONTENT_SIZE: u8 = 0x08;
        const CONTENT_CHECKSUM: u8 = 0x04;
        const RESERVED: u8 = 0x02;
        const DICTIONARY_ID: u8 = 0x01;

        let descriptor_start = input.rest();
        let [flags, block_descriptor] = input.array("frame header")?;
        if flags & VERSION_MASK != VERSION_1 || flags & RESERVED != 0 {
            return Err(input.corrupt("the frame header has unknown flags"));
        }
        let block_maximum = match block_descriptor {
            0x40 => 64 * 1024,
            0x50 => 256 * 1024,
            0x60 => 1024 * 1024,
            0x70 => 4 * 1024 * 1024,
            _ => return Err(input.corrupt("the frame header has no valid block size")),
        };
        let content_size = match flags & CONTENT_SIZE {
            0 => None,
            _ => Some(u64::from_le_bytes(input.array("frame header")?)),
        };
        if flags & DICTIONARY_ID != 0 {
            return Err(DecompressError::Unsupported {
                codec: Codec::Lz4,
                feature: "a dictionary",
            });
        }
        let hash = XxHash32::oneshot(0, input.read_since(descriptor_start));
        let [_, expected, ..] = hash.to_le_bytes();
        let checksum = input.byte("frame header")?;
        if header_checksum == HeaderChecksum::Verify && checksum != expected {
            return Err(input.corrupt("the frame header does not match its checksum"));
        }
        Ok(Self {
            block_maximum,
            linked_blocks: flags & INDEPENDENT_BLOCKS == 0,
            block_checksums: flags & BLOCK_CHECKSUMS != 0,
            content_checksum: flags & CONTENT_CHECKSUM != 0,
            content_size,
        })
    }

    fn decompress(
        &self,
        input: &mut Input<'_>,
        output: &mut Output<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        let frame_start = output.len();
        loop {
            let word = u32::from_le_bytes(input.array("block length")?);
            let length = as_size(word & !STORED_BLOCK);
            if length == 0 {
                break;
            }
            if length > self.block_maximum {
                return Err(input.corrupt("a block is longer than the frame allows"));
            }
            let block = input.bytes(length, "block")?;
            if self.block_checksums {
                check(input, block, "a block does not match its checksum")?;
            }
            if word & STORED_BLOCK != 0 {
                output.append(block)?;
            } else {
                let window = output.written_since(frame_start);
                let content = self.decompress_block(block, window, output, scratch)?;
                output.append(content)?;
            }
        }
        let content = output.written_since(frame_start);
        if self.content_checksum {
            check(input, content, "the content does not match its checksum")?;
        }
        if self.content_size.is_some_and(|size| size != content.len() as u64) {
            return Err(input.corrupt("the content does not have the claimed size"));
        }
        Ok(())
    }

    /// `frame` is the output of the frame so far: linked blocks refer back to it.
    fn decompress_block<'a>(
        &self,
        block: &[u8],
        frame: &[u8],
        output: &Output<'_>,
        scratch: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], DecompressError> {
        let possible = self.block_maximum.min(block.len().saturating_mul(MAX_EXPANSION));
        let room = possible.min(output.allowance());
        if scratch.len() < room {
            scratch.resize(room, 0);
        }
        let target = scratch.get_mut(..room).unwrap_or_default();
        let result = if self.linked_blocks {
            let window_start = frame.len().saturating_sub(WINDOW);
            let window = frame.get(window_start..).unwrap_or_default();
            block::decompress_into_with_dict(block, target, window)
        } else {
            block::decompress_into(block, target)
        };
        match result {
            Ok(length) => Ok(target.get(..length).unwrap_or_default()),
            Err(block::DecompressError::OutputTooSmall { .. }) if room < possible => Err(output.too_large()),
            Err(_) => Err(output.corrupt("a block is damaged")),
        }
    }
}

/// Reads the checksum that follows `bytes` and compares.
fn check(input: &mut Input<'_>, bytes: &[u8], mismatch: &'static str) -> Result<(), DecompressError> {
    let checksum = u32::from_le_bytes(input.array("checksum")?);
    if checksum != XxHash32::oneshot(0, bytes) {
        return Err(input.corrupt(mismatch));
    }
    Ok(())
}

fn as_size(length: u32) -> usize {
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// The frame header of Kafka's Java client: version 1, independent blocks of at most 64 KiB, no checksums but that
/// of the header, no content size.
const FRAME_HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
const END_MARK: [u8; 4] = [0; 4];
const BLOCK_SIZE: usize = 64 * 1024;

pub(super) struct Encoder {
    table: CompressTable,
    /// One compressed block. Its memory is initialized once, not per block.
    block: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self {
            table: CompressTable::default(),
            block: vec![0; block::get_maximum_output_size(BLOCK_SIZE)],
        }
    }

    pub(super) fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
        out.extend_from_slice(&FRAME_HEADER);
        for chunk in input.chunks(BLOCK_SIZE) {
            let length = block::compress_into_with_table(chunk, &mut self.block, &mut self.table);
            let compressed = length.ok().and_then(|length| self.block.get(..length));
            let compressed = compressed.ok_or(CompressError::Failed {
                codec: Codec::Lz4,
                reason: "a block did not fit its buffer",
            })?;
            let (data, stored) = if compressed.len() < chunk.len() {
                (compressed, 0)
            } else {
                (chunk, STORED_BLOCK)
            };
            out.extend_from_slice(&(data.len() as u32 | stored).to_le_bytes());
            out.extend_from_slice(data);
        }
        out.extend_from_slice(&END_MARK);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

    use super::super::Decompressor;
    use super::*;

    fn decompress(input: &[u8]) -> Result<Vec<u8>, DecompressError> {
        let mut out = b"before".to_vec();
        Decompressor::new().decompress(Codec::Lz4, input, &mut out, 1 << 20)?;
        Ok(out.split_off(6))
    }

    fn compress(input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new().compress(input, &mut out).unwrap();
        out
    }

    fn frame(info: FrameInfo, content: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn text(length: usize) -> Vec<u8> {
        let words = (0u32..).flat_map(|i| format!("{} words, ", i.wrapping_mul(7919) % 5000).into_bytes());
        words.take(length).collect()
    }

    #[test]
    fn frames_of_every_kind_are_read() {
        let content = text(300_000);
        for block_mode in [BlockMode::Independent, BlockMode::Linked] {
            for block_size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
                for checksums in [false, true] {
                    let info = FrameInfo::new()
                        .block_mode(block_mode)
                        .block_size(block_size)
                        .block_checksums(checksums)
                        .content_checksum(checksums)
                        .content_size(checksums.then_some(content.len() as u64));
                    let input = frame(info, &content);
                    assert_eq!(decompress(&input).unwrap(), content);
                }
            }
        }
    }

    #[test]
    fn linked_blocks_see_only_their_own_frame() {
        let content = text(100_000);
        let linked = FrameInfo::new()
            .block_mode(BlockMode::Linked)
            .block_size(BlockSize::Max64KB);
        let input = frame(linked, &content).repeat(2);
        assert_eq!(decompress(&input).unwrap(), content.repeat(2));

        // A first block that refers back finds nothing to refer to, although
        // the buffer holds bytes of a frame before.
        let header = &frame(FrameInfo::new().block_mode(BlockMode::Linked), b"")[..7];
        let refers_back = [0x00, 4, 0, 0x50, b'a', b'b', b'c', b'd', b'e'];
        let block = [&9u32.to_le_bytes()[..], &refers_back, &END_MARK].concat();
        let second = [header, &block].concat();
        let input = [compress(b"12345678"), second].concat();
        assert!(matches!(decompress(&input), Err(DecompressError::Corrupt { .. })));
    }

    #[test]
    fn damage_is_found_by_each_checksum() {
        let content = text(1000);
        for (blocks, contents) in [(true, false), (false, true)] {
            let info = FrameInfo::new().block_checksums(blocks).content_checksum(contents);
            let input = frame(info, &content);
            for position in 4..input.len() {
                let mut damaged = input.clone();
                damaged[position] ^= 0x10;
                assert!(decompress(&damaged).is_err(), "{position}");
            }
        }
    }

    #[test]
    fn skippable_and_concatenated_frames_are_read() {
        let skippable = [&0x184d_2a5fu32.to_le_bytes()[..], &3u32.to_le_bytes(), b"abc"].concat();
        let input = [&skippable[..], &compress(b"one "), &skippable, &compress(b"two")].concat();
        assert_eq!(decompress(&input).unwrap(), b"one two");
    }

    #[test]
    fn a_wrong_header_checksum_is_ignored_for_magic_0_only() {
        let mut input = compress(b"content");
        input[6] ^= 0xff;
        assert!(decompress(&input).is_err());
        let mut out = Vec::new();
        Decompressor::new()
            .decompress_magic0(Codec::Lz4, &input, &mut out, 100)
            .unwrap();
        assert_eq!(out, b"content");
    }

    #[test]
    fn a_dictionary_is_not_supported() {
        let mut input = compress(b"content");
        input[4] |= 1;
        assert!(matches!(decompress(&input), Err(DecompressError::Unsupported { .. })));
    }

    #[test]
    fn a_claimed_content_size_allocates_nothing() {
        let info = FrameInfo::new().content_size(Some(3));
        let mut input = frame(info, b"abc");
        input[6..14].copy_from_slice(&u64::MAX.to_le_bytes());
        let hash = XxHash32::oneshot(0, &input[4..14]);
        input[14] = (hash >> 8) as u8;
        let mut out = Vec::new();
        let result = Decompressor::new().decompress(Codec::Lz4, &input, &mut out, usize::MAX);
        assert!(matches!(result, Err(DecompressError::Corrupt { .. })));
        assert!(out.capacity() < 1024);
    }

    #[test]
    fn the_memory_for_a_block_is_bounded() {
        let info = FrameInfo::new().block_size(BlockSize::Max4MB);
        let input = frame(info, &vec![0; 4 << 20]);
        let mut decoder = Decoder::new();
        let mut out = Vec::new();
        let mut output = Output::new(Codec::Lz4, &mut out, 8 << 20);
        let input = Input::new(Codec::Lz4, &input);
        decoder.decompress(input, HeaderChecksum::Verify, &mut output).unwrap();
        assert_eq!(out.len(), 4 << 20);
        assert!(decoder.block.capacity() <= BLOCK_SIZE);
    }

    #[test]
    fn incompressible_blocks_are_stored_and_others_read_the_frames() {
        let mut state = 1u32;
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        let random: Vec<u8> = random.take(100_000).collect();
        let stored = compress(&random);
        assert_eq!(stored.len(), 7 + 4 + BLOCK_SIZE + 4 + (100_000 - BLOCK_SIZE) + 4);
        for content in [random, text(200_000), Vec::new()] {
            let mut read = Vec::new();
            FrameDecoder::new(&compress(&content)[..])
                .read_to_end(&mut read)
                .unwrap();
            assert_eq!(read, content);
        }
    }
}
