//! The state of a log that only its writer touches.

use std::sync::Arc;

use milena_wire::records::{BatchHeader, TimestampType};

use crate::{
    config::{Durability, LogConfig},
    epochs::LeaderEpochs,
    ledger::LogMark,
    log::Appended,
    producers::{Duplicate, Producers},
    segment::Segment,
    view::LogView,
};

/// State that only the writer touches.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) producers: Producers,
    /// Shared with the views.
    pub(crate) epochs: Arc<LeaderEpochs>,
    pub(crate) log_start_offset: i64,
    /// Everything below is compacted.
    pub(crate) first_dirty_offset: i64,
    pub(crate) end_offset: i64,
    /// Everything below survives a power cut.
    pub(crate) synced_offset: i64,
    /// Everything below is final even through a power cut: it is synced, and so is the end of each transaction
    /// in it.
    pub(crate) settled_offset: i64,
    /// Whether the folder has names that a power cut could take back.
    pub(crate) new_names: bool,
    /// The checksum of the last batch, as long as it is in the segment that is written to.
    pub(crate) last_crc: Option<u32>,
}

impl Writer {
    pub(crate) fn view(&mut self, durability: Durability) -> LogView {
        let high_watermark = match durability {
            // Readers do not see records that a power cut could take back.
            Durability::Fsync => self.synced_offset,
            Durability::Memory | Durability::Os => self.end_offset,
        };
        self.producers.advance(high_watermark);
        let unstable = self.producers.first_unstable_offset();
        LogView {
            segments: self.segments.clone().into(),
            log_start_offset: self.log_start_offset,
            high_watermark,
            last_stable_offset: unstable.map_or(high_watermark, |offset| offset.min(high_watermark)),
            log_end_offset: self.end_offset,
            active_size: self.segments.last().map_or(0, |segment| segment.size()),
            epochs: Arc::clone(&self.epochs),
            offline: None,
        }
    }

    pub(crate) fn mark(&self, high_watermark: i64) -> LogMark {
        let active = self.segments.last();
        LogMark {
            log_start_offset: self.log_start_offset,
            synced_offset: self.synced_offset,
            high_watermark,
            end_offset: self.end_offset,
            active_base: active.map_or(self.end_offset, |segment| segment.base_offset),
            active_size: active.map_or(0, |segment| segment.size()),
            last_crc: self.last_crc,
        }
    }

    /// The result for a batch that was just written.
    pub(crate) fn appended(&self, header: &BatchHeader) -> Appended {
        Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            log_append_time_ms: log_append_time(header),
            log_start_offset: self.log_start_offset,
            duplicate: false,
        }
    }

    pub(crate) fn duplicate(&self, duplicate: &Duplicate, config: &LogConfig) -> Appended {
        Appended {
            base_offset: duplicate.base_offset,
            last_offset: duplicate.last_offset,
            log_append_time_ms: match config.timestamp_type {
                TimestampType::LogAppendTime => duplicate.timestamp,
                _ => -1,
            },
            log_start_offset: self.log_start_offset,
            duplicate: true,
        }
    }

    /// The segments that hold offsets from `offset` on.
    pub(crate) fn segments_from(&self, offset: i64) -> Vec<Arc<Segment>> {
        let after = self.segments.partition_point(|segment| segment.base_offset <= offset);
        self.segments.iter().skip(after.saturating_sub(1)).cloned().collect()
    }
}

fn log_append_time(header: &BatchHeader) -> i64 {
    match header.attributes.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        _ => -1,
    }
}
