//! Gzip (RFC 1952) around deflate.
//!
//! The header and the trailer are read and written here, because the streaming
//! readers cannot keep their inflate state from one batch to the next.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Codec, CompressError, DecompressError, Input, Output};

const MAGIC_AND_DEFLATE: [u8; 3] = [0x1f, 0x8b, 8];
const FLAG_HEADER_CRC: u8 = 0x02;
const FLAG_EXTRA: u8 = 0x04;
const FLAG_NAME: u8 = 0x08;
const FLAG_COMMENT: u8 = 0x10;
const RESERVED_FLAGS: u8 = 0xe0;

pub(super) struct Inflater {
    inflate: Decompress,
}

impl Inflater {
    pub(super) fn new() -> Self {
        Self {
            inflate: Decompress::new(false),
        }
    }

    /// Reads members until the input ends, as Java's `GZIPInputStream` does.
    pub(super) fn decompress(&mut self, mut input: Input<'_>, output: &mut Output<'_>) -> Result<(), DecompressError> {
        loop {
            skip_header(&mut input)?;
            let member_start = output.len();
            self.inflate_member(&mut input, output)?;
            check_trailer(&mut input, output.written_since(member_start))?;
            if input.is_empty() {
                return Ok(());
            }
        }
    }

    fn inflate_member(&mut self, input: &mut Input<'_>, output: &mut Output<'_>) -> Result<(), DecompressError> {
        self.inflate.reset(false);
        let member_start = output.len();
        let mut step = first_step(input.rest());
        loop {
            let allowance = output.allowance();
            // One byte more than allowed distinguishes output that just fits the limit from output that
            // continues.
            let room = step.min(allowance.saturating_add(1));
            let (consumed, produced, status) = self.inflate_into(input.rest(), output, room)?;
            input.bytes(consumed, "deflate data")?;
            if produced > allowance {
                return Err(output.too_large());
            }
            if status == Status::StreamEnd {
                return Ok(());
            }
            if consumed == 0 && produced == 0 {
                return Err(input.truncated("deflate data"));
            }
            step = output.written_since(member_start).len().max(SMALLEST_STEP);
        }
    }

    fn inflate_into(
        &mut self,
        compressed: &[u8],
        output: &mut Output<'_>,
        room: usize,
    ) -> Result<(usize, usize, Status), DecompressError> {
        let (total_in, total_out) = (self.inflate.total_in(), self.inflate.total_out());
        let start = output.append_zeros(room)?;
        let target = output.buffer().get_mut(start..).unwrap_or_default();
        // `Finish` saves a copy of the last 32 KiB into the window if the whole member fits; otherwise
        // inflating continues.
        let result = self.inflate.decompress(compressed, target, FlushDecompress::Finish);
        let consumed = difference(self.inflate.total_in(), total_in);
        let produced = difference(self.inflate.total_out(), total_out);
        output.buffer().truncate(start.saturating_add(produced));
        let status = result.map_err(|_| output.corrupt("invalid deflate data"))?;
        Ok((consumed, produced, status))
    }
}

const SMALLEST_STEP: usize = 4096;

/// Size of the first output step. The last four bytes hold the uncompressed size, so that one step suffices; but
/// they may be wrong: then the steps start small and double.
fn first_step(input: &[u8]) -> usize {
    const BELIEVABLE_RATIO: usize = 16;
    let claimed = input.last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let believable = input.len().saturating_mul(BELIEVABLE_RATIO);
    usize::try_from(claimed)
        .unwrap_or(usize::MAX)
        .clamp(1, believable.max(SMALLEST_STEP))
}

pub(super) fn skip_header(input: &mut Input<'_>) -> Result<(), DecompressError> {
    let header_start = input.rest();
    if input.array("header")? != MAGIC_AND_DEFLATE {
        return Err(input.corrupt("no gzip header"));
    }
    let flags = input.byte("header")?;
    if flags & RESERVED_FLAGS != 0 {
        return Err(input.corrupt("reserved header flags are set"));
    }
    // Modification time, extra flags and operating system mean nothing here.
    input.bytes(6, "header")?;
    if flags & FLAG_EXTRA != 0 {
        let length = u16::from_le_bytes(input.array("extra header field")?);
        input.bytes(length.into(), "extra header field")?;
    }
    if flags & FLAG_NAME != 0 {
        skip_zero_terminated(input, "file name")?;
    }
    if flags & FLAG_COMMENT != 0 {
        skip_zero_terminated(input, "comment")?;
    }
    if flags & FLAG_HEADER_CRC != 0 {
        let crc = crc32fast::hash(input.read_since(header_start));
        let expected = u16::from_le_bytes(input.array("header checksum")?);
        if crc & 0xffff != u32::from(expected) {
            return Err(input.corrupt("the header does not match its checksum"));
        }
    }
    Ok(())
}

fn skip_zero_terminated(input: &mut Input<'_>, part: &'static str) -> Result<(), DecompressError> {
    while input.byte(part)? != 0 {}
    Ok(())
}

fn check_trailer(input: &mut Input<'_>, member: &[u8]) -> Result<(), DecompressError> {
    let crc = u32::from_le_bytes(input.array("trailer")?);
    let length = u32::from_le_bytes(input.array("trailer")?);
    if crc != crc32fast::hash(member) {
        return Err(input.corrupt("the data does not match its checksum"));
    }
    // The trailer holds the length modulo 2^32.
    if u64::from(length) != member.len() as u64 & u64::from(u32::MAX) {
        return Err(input.corrupt("the data does not have the length in its trailer"));
    }
    Ok(())
}

pub(super) struct Deflater {
    deflate: Compress,
}

impl Deflater {
    /// `level` is 1 to 9; anything else stands for the default level.
    pub(super) fn new(level: Option<i32>) -> Self {
        let level = level
            .and_then(|level| u32::try_from(level).ok())
            .map_or_else(flate2::Compression::default, flate2::Compression::new);
        Self {
            deflate: Compress::new(level, false),
        }
    }

    pub(super) fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
        const UNKNOWN_SYSTEM: u8 = 0xff;
        let [magic_1, magic_2, deflate] = MAGIC_AND_DEFLATE;
        let header = [magic_1, magic_2, deflate, 0, 0, 0, 0, 0, 0, UNKNOWN_SYSTEM];
        out.extend_from_slice(&header);
        self.deflate_all(input, out)?;
        out.extend_from_slice(&crc32fast::hash(input).to_le_bytes());
        // The trailer holds the length modulo 2^32.
        out.extend_from_slice(&(input.len() as u32).to_le_bytes());
        Ok(())
    }

    fn deflate_all(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
        self.deflate.reset();
        let mut rest = input;
        loop {
            let (total_in, total_out) = (self.deflate.total_in(), self.deflate.total_out());
            let start = out.len();
            let room = (rest.len() / 2).max(SMALLEST_STEP);
            out.resize(start.saturating_add(room), 0);
            let target = out.get_mut(start..).unwrap_or_default();
            let result = self.deflate.compress(rest, target, FlushCompress::Finish);
            let consumed = difference(self.deflate.total_in(), total_in);
            let produced = difference(self.deflate.total_out(), total_out);
            out.truncate(start.saturating_add(produced));
            rest = rest.get(consumed..).unwrap_or_default();
            match result {
                Ok(Status::StreamEnd) => return Ok(()),
                Ok(_) if consumed > 0 || produced > 0 => {}
                Ok(_) => return Err(failed("deflate made no progress")),
                Err(_) => return Err(failed("deflate refused the data")),
            }
        }
    }
}

fn failed(reason: &'static str) -> CompressError {
    CompressError::Failed {
        codec: Codec::Gzip,
        reason,
    }
}

fn difference(after: u64, before: u64) -> usize {
    usize::try_from(after.saturating_sub(before)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::GzBuilder;

    use super::super::Decompressor;
    use super::*;

    fn gunzip(input: &[u8]) -> Result<Vec<u8>, DecompressError> {
        let mut out = Vec::new();
        Decompressor::new().decompress(Codec::Gzip, input, &mut out, 1 << 20)?;
        Ok(out)
    }

    fn member(builder: GzBuilder, content: &[u8]) -> Vec<u8> {
        let mut encoder = builder.write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_with_every_header_field_follow_each_other() {
        let mut input = member(GzBuilder::new(), b"one ");
        input.extend(member(
            GzBuilder::new().extra(vec![1; 300]).filename("name").comment("comment"),
            b"two ",
        ));
        input.extend(member(GzBuilder::new(), b""));
        input.extend(member(GzBuilder::new(), b"three"));
        assert_eq!(gunzip(&input).unwrap(), b"one two three");
    }

    #[test]
    fn the_header_checksum_is_verified() {
        let plain = member(GzBuilder::new(), b"content");
        let (header, rest) = plain.split_at(10);
        let mut header = header.to_vec();
        header[3] |= FLAG_HEADER_CRC;
        let crc = crc32fast::hash(&header) as u16;

        let with_crc = |crc: u16| [&header, &crc.to_le_bytes()[..], rest].concat();
        assert_eq!(gunzip(&with_crc(crc)).unwrap(), b"content");
        assert!(matches!(gunzip(&with_crc(!crc)), Err(DecompressError::Corrupt { .. })));
    }

    #[test]
    fn the_trailer_is_verified() {
        let input = member(GzBuilder::new(), b"content");
        for position in input.len() - 8..input.len() {
            let mut damaged = input.clone();
            damaged[position] ^= 1;
            let error = gunzip(&damaged).unwrap_err();
            assert!(matches!(error, DecompressError::Corrupt { .. }), "{error}");
        }
    }

    #[test]
    fn a_lying_length_in_the_trailer_prepares_little() {
        let mut input = member(GzBuilder::new(), b"content");
        let length_at = input.len() - 4;
        input[length_at..].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut out = Vec::new();
        let result = Decompressor::new().decompress(Codec::Gzip, &input, &mut out, usize::MAX);
        assert!(matches!(result, Err(DecompressError::Corrupt { .. })));
        assert!(out.capacity() <= SMALLEST_STEP);
    }

    #[test]
    fn a_long_member_takes_several_steps() {
        let content = b"a line that comes again and again".repeat(20_000);
        let input = member(GzBuilder::new(), &content);
        assert!(content.len() > 2 * first_step(&input));
        assert_eq!(gunzip(&input).unwrap(), content);
    }

    #[test]
    fn other_implementations_read_every_level() {
        let input = b"some text, some text, some other text".repeat(300);
        for level in [-1, 1, 5, 9] {
            let mut out = b"before".to_vec();
            Deflater::new(Some(level)).compress(&input, &mut out).unwrap();
            let mut read = Vec::new();
            let mut decoder = flate2::read::GzDecoder::new(&out[6..]);
            std::io::Read::read_to_end(&mut decoder, &mut read).unwrap();
            assert_eq!(read, input);
        }
    }
}
