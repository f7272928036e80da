//! The interface that records the state of a log, so that the next start can detect loss.

use std::fmt::Debug;

/// The state of a log at one moment, as far as the next start must know it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LogMark {
    pub log_start_offset: i64,
    /// Records below survive a power cut.
    pub synced_offset: i64,
    /// Readers may have seen the records below, so these offsets are never assigned again.
    pub high_watermark: i64,
    pub end_offset: i64,
    /// The base offset of the segment that is written to, and its size.
    pub active_base: i64,
    pub active_size: u32,
    /// The checksum of the batch that ends at `end_offset`, if it is in that segment.
    pub last_crc: Option<u32>,
}

/// Stores the marks of one log. A mark is stored before readers see the state that it describes.
pub trait Ledger: Debug + Send + Sync {
    fn note(&self, mark: &LogMark);
}
