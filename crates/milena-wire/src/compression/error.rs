//! Errors of compression and decompression.

use super::Codec;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    #[error("the {codec} data decompresses to more than the allowed {limit} bytes")]
    TooLarge { codec: Codec, limit: usize },
    #[error("the {codec} data ends within its {part}")]
    Truncated { codec: Codec, part: &'static str },
    #[error("the {codec} data is corrupt: {reason}")]
    Corrupt { codec: Codec, reason: &'static str },
    #[error("the {codec} data uses {feature}, which is not supported")]
    Unsupported { codec: Codec, feature: &'static str },
    #[error("no memory for {bytes} bytes to decompress {codec} data")]
    OutOfMemory { codec: Codec, bytes: usize },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompressError {
    #[error("{codec} has no level {level}: its levels are {allowed}")]
    LevelOutOfRange {
        codec: Codec,
        level: i32,
        allowed: &'static str,
    },
    #[error("{codec} takes no level, but {level} was given")]
    NoLevels { codec: Codec, level: i32 },
    #[error("{codec} failed to compress: {reason}")]
    Failed { codec: Codec, reason: &'static str },
}
