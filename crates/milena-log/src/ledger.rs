//! The seam to where the state of a log is noted, so that the next start knows what there was.

use std::fmt::Debug;

/// The state of a log at one moment, as far as the next start must know it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogMark {
    pub log_start_offset: i64,
    /// Records below survive a power cut.
    pub synced_offset: i64,
    /// Readers may have seen the records below: these offsets are never given out again.
    pub high_watermark: i64,
    pub end_offset: i64,
    /// The base offset of the segment that is written to, and its size.
    pub active_base: i64,
    pub active_size: u32,
    /// The checksum of the batch that ends at `end_offset`, if it is in that segment.
    pub last_crc: Option<u32>,
}

/// A place for the marks of one log. It is told before readers see the state that a mark describes.
pub trait Ledger: Debug + Send + Sync {
    fn note(&self, mark: &LogMark);
}
