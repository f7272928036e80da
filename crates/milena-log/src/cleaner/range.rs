//! The part of a log that may be compacted, and whether that is worthwhile.

use std::sync::Arc;

use crate::{config::LogConfig, log::Log, producers::Producers, segment::Segment, view::LogView};

/// The gain that compaction of a log would bring.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dirtiness {
    /// The share of bytes that may be compacted and were not yet.
    pub ratio: f64,
    /// Whether the topic's settings demand compaction now.
    pub due: bool,
}

/// The first segments of a log, which compaction may change.
pub(super) struct Range {
    pub(super) view: Arc<LogView>,
    pub(super) producers: Producers,
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) first_dirty: i64,
    /// Base offset of the first segment that must not be changed.
    pub(super) end: i64,
}

impl Log {
    /// The share of the log that is dirty: the driver compacts the dirtiest log first.
    pub fn dirtiness(&self, now_ms: i64) -> Dirtiness {
        let config = self.config();
        let range = self.compactable(&config, now_ms);
        let total: u64 = range.segments.iter().map(|segment| u64::from(segment.size())).sum();
        let dirty = range.dirty_bytes();
        let ratio = if total == 0 { 0.0 } else { dirty as f64 / total as f64 };
        let oldest = range.dirty().next().and_then(|segment| segment.first_timestamp());
        let overdue = oldest.is_some_and(|oldest| now_ms.saturating_sub(oldest) > config.max_compaction_lag_ms);
        Dirtiness {
            ratio,
            due: config.compact && dirty > 0 && (overdue || ratio > config.min_cleanable_dirty_ratio),
        }
    }

    /// The offset up to which the log is compacted. The driver stores it for the next start.
    pub fn first_dirty_offset(&self) -> i64 {
        let writer = self.writer();
        writer.first_dirty_offset.max(writer.log_start_offset)
    }

    /// Restores the stored offset after the log was opened.
    pub fn set_first_dirty_offset(&self, offset: i64) {
        let mut writer = self.writer();
        // Above the end of the log, it would cover records that are still to be written.
        writer.first_dirty_offset = if offset <= writer.end_offset { offset } else { 0 };
    }

    /// The segments that are neither active nor unsettled nor too young.
    ///
    /// A value may replace another only if no power cut can take it back, nor the end of its transaction.
    pub(super) fn compactable(&self, config: &LogConfig, now_ms: i64) -> Range {
        let writer = self.writer();
        let view = self.view();
        let first_dirty = writer.first_dirty_offset.max(writer.log_start_offset);
        let mut segments = vec![];
        let mut end = view.segments.first().map_or(0, |first| first.base_offset);
        for (segment, next) in view.segments.iter().zip(view.segments.iter().skip(1)) {
            let is_dirty = next.base_offset > first_dirty;
            let age = segment.largest_timestamp().map(|latest| now_ms.saturating_sub(latest));
            let too_young = is_dirty
                && config.min_compaction_lag_ms > 0
                && age.is_some_and(|age| age < config.min_compaction_lag_ms);
            if next.base_offset > writer.settled_offset || too_young {
                break;
            }
            segments.push(Arc::clone(segment));
            end = next.base_offset;
        }
        Range {
            producers: writer.producers.clone(),
            view,
            segments,
            first_dirty,
            end,
        }
    }
}

impl Range {
    /// Base offset of the first segment.
    pub(super) fn start(&self) -> i64 {
        self.segments.first().map_or(self.end, |first| first.base_offset)
    }

    /// The segments that hold something new.
    pub(super) fn dirty(&self) -> impl Iterator<Item = &Arc<Segment>> {
        let ends = self.segments.iter().skip(1).map(|next| next.base_offset);
        let ends = ends.chain(std::iter::once(self.end));
        let dirty = self
            .segments
            .iter()
            .zip(ends)
            .filter(|(_, end)| *end > self.first_dirty);
        dirty.map(|(segment, _)| segment)
    }

    pub(super) fn dirty_bytes(&self) -> u64 {
        self.dirty().map(|segment| u64::from(segment.size())).sum()
    }
}

/// Cuts segments into groups, each of which fits one new segment.
pub(super) fn groups<'a>(segments: &'a [Arc<Segment>], end: i64, config: &LogConfig) -> Vec<&'a [Arc<Segment>]> {
    let mut groups = vec![];
    let mut rest = segments;
    while !rest.is_empty() {
        let (group, after) = rest.split_at(group_len(rest, end, config).max(1));
        groups.push(group);
        rest = after;
    }
    groups
}

/// The number of leading segments that fit into one by their present size: compaction seldom makes them larger.
fn group_len(segments: &[Arc<Segment>], end: i64, config: &LogConfig) -> usize {
    let base_offset = segments.first().map_or(0, |first| first.base_offset);
    let index_max = config.segment_index_bytes as usize;
    let (mut bytes, mut offsets, mut times) = (0, 0, 0);
    let ends = segments.iter().skip(1).map(|next| next.base_offset);
    let fits = |(segment, end): &(&Arc<Segment>, i64)| {
        let (offset_index, time_index) = segment.index_sizes();
        bytes += u64::from(segment.size());
        offsets += offset_index;
        times += time_index;
        bytes <= u64::from(config.segment_bytes)
            && offsets <= index_max
            && times <= index_max
            && end - 1 - base_offset <= i64::from(i32::MAX)
    };
    let ends = ends.chain(std::iter::once(end));
    segments.iter().zip(ends).take_while(fits).count()
}
