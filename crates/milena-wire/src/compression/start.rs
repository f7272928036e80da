//! Checks of the start of compressed data, without decompressing it.

use super::{Codec, DecompressError, Input, gzip, lz4, snappy};

const ZSTD_MAGIC: u32 = 0xfd2f_b528;
/// Frames that a zstd reader skips.
const ZSTD_SKIPPABLE: u32 = 0x184d_2a50;
const ZSTD_SKIPPABLE_MASK: u32 = 0xffff_fff0;

impl Codec {
    /// Refuses data whose first bytes Kafka's own decoders refuse. The rest may still be damaged.
    pub fn check_start(self, compressed: &[u8]) -> Result<(), DecompressError> {
        let mut input = Input::new(self, compressed);
        match self {
            Self::None => Ok(()),
            Self::Gzip => gzip::skip_header(&mut input),
            Self::Snappy => snappy::check_start(input),
            Self::Lz4 => lz4::check_start(input),
            Self::Zstd => {
                let magic = u32::from_le_bytes(input.array("frame magic")?);
                match magic == ZSTD_MAGIC || magic & ZSTD_SKIPPABLE_MASK == ZSTD_SKIPPABLE {
                    true => Ok(()),
                    false => Err(input.corrupt("no frame starts where one should")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::{Compression, Compressor};

    fn compressed(codec: Codec) -> Vec<u8> {
        let mut out = vec![];
        let text = b"a small sample, a small sample".repeat(10);
        let mut compressor = Compressor::new(Compression::from(codec));
        compressor.compress(&text, &mut out).unwrap();
        out
    }

    #[test]
    fn what_we_write_begins_as_it_should() {
        for codec in Codec::ALL {
            assert_eq!(codec.check_start(&compressed(codec)), Ok(()), "{codec}");
        }
        let bare = snap::raw::Encoder::new().compress_vec(b"a bare block").unwrap();
        assert_eq!(Codec::Snappy.check_start(&bare), Ok(()));
    }

    #[test]
    fn data_of_another_codec_or_none_at_all_is_refused() {
        let codecs = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        for codec in codecs {
            assert!(codec.check_start(b"").is_err(), "{codec}");
            assert!(codec.check_start(&[0xff; 40]).is_err(), "{codec}");
            for other in codecs.into_iter().filter(|other| *other != codec) {
                // A bare snappy block may begin with almost anything.
                if codec != Codec::Snappy {
                    assert!(codec.check_start(&compressed(other)).is_err(), "{other} as {codec}");
                }
            }
        }
    }

    /// A frame of no blocks with these flags; its header has the right checksum.
    fn lz4_frame(flags: u8, block_descriptor: u8) -> Vec<u8> {
        let [_, checksum, ..] = twox_hash::XxHash32::oneshot(0, &[flags, block_descriptor]).to_le_bytes();
        let mut frame = 0x184d_2204_u32.to_le_bytes().to_vec();
        frame.extend([flags, block_descriptor, checksum, 0, 0, 0, 0]);
        frame
    }

    #[test]
    fn lz4_frames_that_kafkas_reader_refuses_are_refused() {
        // Bits of the flags: 6 and 7 the version, 5 independent blocks, 0 a dictionary, 1 reserved.
        assert_eq!(Codec::Lz4.check_start(&lz4_frame(0x60, 0x40)), Ok(()));
        let linked = Codec::Lz4.check_start(&lz4_frame(0x40, 0x40)).unwrap_err();
        assert!(
            linked.to_string().contains("blocks that refer to each other"),
            "{linked}"
        );
        for (flags, block_descriptor) in [
            (0x20, 0x40),
            (0xa0, 0x40),
            (0x61, 0x40),
            (0x62, 0x40),
            (0x60, 0x30),
            (0x60, 0x41),
        ] {
            let frame = lz4_frame(flags, block_descriptor);
            assert!(
                Codec::Lz4.check_start(&frame).is_err(),
                "{flags:x} {block_descriptor:x}"
            );
        }
        let mut wrong_checksum = lz4_frame(0x60, 0x40);
        wrong_checksum[6] ^= 1;
        assert!(Codec::Lz4.check_start(&wrong_checksum).is_err());
    }
}
