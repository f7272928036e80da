//! Which part of a log may be compacted, and whether it is worth it.

use std::sync::Arc;

use crate::{config::LogConfig, log::Log, producers::Producers, segment::Segment, view::LogView};

/// How much a log would gain from compaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dirtiness {
    /// The share of bytes that may be compacted and were not yet.
    pub ratio: f64,
    /// Whether the topic's settings ask for compaction now.
    pub due: bool,
}

/// What compaction may touch: the first segments of a log.
pub(super) struct Range {
    pub(super) view: Arc<LogView>,
    pub(super) producers: Producers,
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) first_dirty: i64,
    /// Where the first segment begins that must be left alone.
    pub(super) end: i64,
}

impl Log {
    /// How dirty the log is: a driver compacts the dirtiest first.
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

    /// Compaction has dealt with what lies below. The driver keeps it for the next start.
    pub fn first_dirty_offset(&self) -> i64 {
        let writer = self.writer();
        writer.first_dirty_offset.max(writer.log_start_offset)
    }

    /// What the driver has kept, after the log was opened.
    pub fn set_first_dirty_offset(&self, offset: i64) {
        let mut writer = self.writer();
        // Above the end it says nothing about what will be written there.
        writer.first_dirty_offset = if offset <= writer.end_offset { offset } else { 0 };
    }

    /// The segments that lie wholly below what is written to, unsettled or too young.
    ///
    /// A value may only take the place of another if no power cut can take it back, nor the end of its transaction.
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
    /// Where the first segment begins.
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

/// How many of the first segments fit one together, by what they are now: compaction seldom makes them larger.
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
