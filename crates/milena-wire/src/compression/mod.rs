//! The compressed part of a record batch: five codecs in the framings that
//! Kafka's clients use.
//!
//! The input is untrusted. A [`Decompressor`] therefore takes a limit, and every length in the input is checked
//! against that limit and against the largest expansion of the codec before it is used.

mod codec;
mod error;
mod gzip;
mod input;
mod lz4;
mod output;
mod snappy;
mod start;
mod zstd;

#[cfg(test)]
mod tests;

pub use codec::{Codec, Compression, UnknownCodec};
pub use error::{CompressError, DecompressError};

use input::Input;
use lz4::HeaderChecksum;
use output::Output;

/// Decompresses any codec and keeps its working memory for the next batch:
/// create one per task and use it for many batches.
#[derive(Default)]
pub struct Decompressor {
    gzip: Option<gzip::Inflater>,
    lz4: Option<lz4::Decoder>,
    zstd: Option<zstd::Decoder>,
}

impl Decompressor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the decompressed bytes to `out`, at most `limit` of them. After
    /// an error `out` is as long as it was before.
    ///
    /// The capacity of `out` does not grow beyond the limit, and stays near the real size: gzip may leave as
    /// much space unused as it filled, zstd frames without a content size up to 128 KiB per block.
    pub fn decompress(
        &mut self,
        codec: Codec,
        input: &[u8],
        out: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), DecompressError> {
        self.run(codec, HeaderChecksum::Verify, input, out, limit)
    }

    /// Like [`Self::decompress`], for messages of magic 0: the clients of that
    /// time computed the checksum of the LZ4 frame header over the wrong
    /// bytes, so it has to be ignored.
    pub fn decompress_magic0(
        &mut self,
        codec: Codec,
        input: &[u8],
        out: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), DecompressError> {
        self.run(codec, HeaderChecksum::Ignore, input, out, limit)
    }

    fn run(
        &mut self,
        codec: Codec,
        header_checksum: HeaderChecksum,
        input: &[u8],
        out: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), DecompressError> {
        let length_before = out.len();
        let mut output = Output::new(codec, out, limit);
        let input = Input::new(codec, input);
        let result = match codec {
            Codec::None => output.append(input.rest()),
            Codec::Gzip => self
                .gzip
                .get_or_insert_with(gzip::Inflater::new)
                .decompress(input, &mut output),
            Codec::Snappy => snappy::decompress(input, &mut output),
            Codec::Lz4 => {
                self.lz4
                    .get_or_insert_with(lz4::Decoder::new)
                    .decompress(input, header_checksum, &mut output)
            }
            Codec::Zstd => self
                .zstd
                .get_or_insert_with(zstd::Decoder::new)
                .decompress(input, &mut output),
        };
        if result.is_err() {
            out.truncate(length_before);
        }
        result
    }
}

/// Compresses with one codec at one level and keeps its working memory for the
/// next batch.
pub struct Compressor {
    compression: Compression,
    encoder: Encoder,
}

enum Encoder {
    None,
    Gzip(gzip::Deflater),
    Snappy(snappy::Encoder),
    Lz4(lz4::Encoder),
    Zstd(zstd::Encoder),
}

impl Compressor {
    pub fn new(compression: Compression) -> Self {
        let level = compression.level();
        let encoder = match compression.codec() {
            Codec::None => Encoder::None,
            Codec::Gzip => Encoder::Gzip(gzip::Deflater::new(level)),
            Codec::Snappy => Encoder::Snappy(snappy::Encoder::new()),
            Codec::Lz4 => Encoder::Lz4(lz4::Encoder::new()),
            Codec::Zstd => Encoder::Zstd(zstd::Encoder::new(level)),
        };
        Self { compression, encoder }
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Appends the compressed bytes to `out`. After an error `out` is as long
    /// as it was before.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressError> {
        let length_before = out.len();
        let result = match &mut self.encoder {
            Encoder::None => {
                out.extend_from_slice(input);
                Ok(())
            }
            Encoder::Gzip(deflater) => deflater.compress(input, out),
            Encoder::Snappy(encoder) => encoder.compress(input, out),
            Encoder::Lz4(encoder) => encoder.compress(input, out),
            Encoder::Zstd(encoder) => encoder.compress(input, out),
        };
        if result.is_err() {
            out.truncate(length_before);
        }
        result
    }
}
