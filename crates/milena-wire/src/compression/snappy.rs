//! Snappy in the framing of snappy-java ("xerial"), as Kafka's Java client writes it, or as one bare block, as some
//! other clients do.

use snap::raw;

use super::{Codec, CompressError, DecompressError, Input, Output};

const MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
const VERSION: i32 = 1;
const BLOCK_SIZE: usize = 32 * 1024;

/// No element of a snappy block expands more than a copy of 3 bytes that yields 64, so a block yields less than 22
/// times its compressed length.
const MAX_EXPANSION: usize = 22;

pub(super) fn decompress(mut input: Input<'_>, output: &mut Output<'_>) -> Result<(), DecompressError> {
    if input.is_empty() {
        return Err(input.truncated("header"));
    }
    if !input.rest().starts_with(&MAGIC) {
        return decompress_block(input.rest(), output);
    }
    while !input.is_empty() {
        // Streams may follow each other, each with its own header.
        if input.rest().starts_with(&MAGIC) {
            skip_header(&mut input)?;
            continue;
        }
        let length = i32::from_be_bytes(input.array("block length")?);
        let length = usize::try_from(length).map_err(|_| input.corrupt("a block length is negative"))?;
        let block = input.bytes(length, "block")?;
        decompress_block(block, output)?;
    }
    Ok(())
}

/// Checks the header of the framing, or the length at the start of a bare block.
pub(super) fn check_start(mut input: Input<'_>) -> Result<(), DecompressError> {
    if input.rest().starts_with(&MAGIC) {
        return skip_header(&mut input);
    }
    if input.is_empty() {
        return Err(input.truncated("header"));
    }
    let length = raw::decompress_len(input.rest()).unwrap_or(usize::MAX);
    if length > input.rest().len().saturating_mul(MAX_EXPANSION) {
        return Err(input.corrupt("it begins neither with a header nor with the length of a block"));
    }
    Ok(())
}

fn skip_header(input: &mut Input<'_>) -> Result<(), DecompressError> {
    input.bytes(MAGIC.len(), "header")?;
    let version = i32::from_be_bytes(input.array("header")?);
    let _oldest_reader = i32::from_be_bytes(input.array("header")?);
    if version < VERSION {
        return Err(input.corrupt("the header has an impossible version"));
    }
    Ok(())
}

fn decompress_block(block: &[u8], output: &mut Output<'_>) -> Result<(), DecompressError> {
    let length = raw::decompress_len(block).map_err(|_| output.corrupt("a block starts with an invalid length"))?;
    if length > block.len().saturating_mul(MAX_EXPANSION) {
        return Err(output.corrupt("a block claims more than it can expand to"));
    }
    if length > output.allowance() {
        return Err(output.too_large());
    }
    let start = output.append_zeros(length)?;
    let target = output.buffer().get_mut(start..).unwrap_or_default();
    raw::Decoder::new()
        .decompress(block, target)
        .map_err(|_| output.corrupt("a block is damaged"))?;
    Ok(())
}

pub(super) struct Encoder {
    /// Boxed for its table, which would make every `Compressor` large.
    encoder: Box<raw::Encoder>,
    /// One compressed block. Its memory is initialized once, not per block.
    block: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self {
            encoder: Box::new(raw::Encoder::new()),
            block: vec![0; raw::max_compress_len(BLOCK_SIZE)],
        }
    }

    pub(super) fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        for chunk in input.chunks(BLOCK_SIZE) {
            let length = self.encoder.compress(chunk, &mut self.block);
            let block = length.ok().and_then(|length| self.block.get(..length));
            let block = block.ok_or(CompressError::Failed {
                codec: Codec::Snappy,
                reason: "a block did not fit its buffer",
            })?;
            out.extend_from_slice(&(block.len() as i32).to_be_bytes());
            out.extend_from_slice(block);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Decompressor;
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn decompress(input: &[u8]) -> Result<Vec<u8>, DecompressError> {
        let mut out = Vec::new();
        let result = Decompressor::new().decompress(Codec::Snappy, input, &mut out, LIMIT);
        assert!(out.capacity() <= LIMIT);
        result.map(|()| out)
    }

    fn stream(content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Encoder::new().compress(content, &mut out).unwrap();
        out
    }

    #[test]
    fn the_framing_is_that_of_snappy_java() {
        let out = stream(b"abc");
        assert_eq!(out, b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01\0\0\0\x05\x03\x08abc");
        assert_eq!(stream(b"").len(), 16);
        assert_eq!(decompress(&stream(b"")).unwrap(), b"");
    }

    #[test]
    fn a_block_holds_at_most_32_kib() {
        let content = vec![b'x'; 3 * BLOCK_SIZE + 1];
        let out = stream(&content);
        let mut input = Input::new(Codec::Snappy, &out[16..]);
        let mut lengths = Vec::new();
        while !input.is_empty() {
            let length = i32::from_be_bytes(input.array("").unwrap());
            let block = input.bytes(length as usize, "").unwrap();
            lengths.push(raw::decompress_len(block).unwrap());
        }
        assert_eq!(lengths, [BLOCK_SIZE, BLOCK_SIZE, BLOCK_SIZE, 1]);
    }

    #[test]
    fn streams_may_follow_each_other() {
        let input = [stream(b"one "), stream(b""), stream(b"two")].concat();
        assert_eq!(decompress(&input).unwrap(), b"one two");
    }

    #[test]
    fn a_bare_block_is_read() {
        let content = b"snappy, snappy, snappy".repeat(5000);
        let block = raw::Encoder::new().compress_vec(&content).unwrap();
        assert_eq!(decompress(&block).unwrap(), content);
    }

    #[test]
    fn a_claimed_length_allocates_nothing() {
        let four_gigabytes = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
        let framed = [&stream(b"")[..], &7i32.to_be_bytes(), &four_gigabytes].concat();
        for input in [&four_gigabytes[..], &framed] {
            let mut out = Vec::new();
            let result = Decompressor::new().decompress(Codec::Snappy, input, &mut out, usize::MAX);
            assert!(matches!(result, Err(DecompressError::Corrupt { .. })));
            assert_eq!(out.capacity(), 0);
        }
    }

    #[test]
    fn bad_block_lengths_are_errors() {
        let header = stream(b"");
        for length in [-1, i32::MIN, i32::MAX, 1, 0] {
            let input = [&header[..], &length.to_be_bytes()].concat();
            assert!(decompress(&input).is_err(), "{length}");
        }
        let mut version_0 = header;
        version_0[11] = 0;
        assert!(decompress(&version_0).is_err());
    }
}
