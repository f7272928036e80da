//! The sparse indexes of a segment: positions of offsets, and offsets of timestamps.
//!
//! ```text
//! .index      8 bytes each: offset relative to the segment u32, position u32: a batch that ends with this offset
//! .timeindex 12 bytes each: timestamp i64, relative offset u32: no record before it is that late
//! ```
//!
//! Both only grow. They are kept in memory and written when a segment is closed or flushed.

use bytes::{Buf, BufMut};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OffsetIndex {
    entries: Vec<(u32, u32)>,
}

impl OffsetIndex {
    pub(crate) const ENTRY_SIZE: usize = 8;

    pub(crate) fn push(&mut self, relative_offset: u32, position: u32) {
        self.entries.push((relative_offset, position));
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A position at or before the batch that holds the offset.
    pub(crate) fn position(&self, relative_offset: u32) -> u32 {
        let after = self.entries.partition_point(|(offset, _)| *offset <= relative_offset);
        self.before(after)
    }

    /// The last known start of a batch at or before a position.
    pub(crate) fn boundary(&self, position: u32) -> u32 {
        let after = self.entries.partition_point(|(_, start)| *start <= position);
        self.before(after)
    }

    fn before(&self, place: usize) -> u32 {
        let entry = place.checked_sub(1).and_then(|place| self.entries.get(place));
        entry.map_or(0, |(_, position)| *position)
    }

    pub(crate) fn last_position(&self) -> u32 {
        self.before(self.entries.len())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * Self::ENTRY_SIZE);
        for (offset, position) in &self.entries {
            bytes.put_u32(*offset);
            bytes.put_u32(*position);
        }
        bytes
    }

    /// Reads a file; `None` if it cannot be the index of a segment of `size` bytes.
    ///
    /// A Kafka that was killed leaves zeros at the end, which are no entries.
    pub(crate) fn decode(mut bytes: &[u8], size: u64) -> Option<Self> {
        let mut index = Self::default();
        while bytes.remaining() >= Self::ENTRY_SIZE {
            let (offset, position) = (bytes.get_u32(), bytes.get_u32());
            if position == 0 && offset == 0 {
                return bytes.iter().all(|byte| *byte == 0).then_some(index);
            }
            let grows = index
                .entries
                .last()
                .is_none_or(|last| last.0 < offset && last.1 < position);
            if !grows || u64::from(position) >= size {
                return None;
            }
            index.push(offset, position);
        }
        bytes.is_empty().then_some(index)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TimeIndex {
    entries: Vec<(i64, u32)>,
}

impl TimeIndex {
    pub(crate) const ENTRY_SIZE: usize = 12;

    /// Adds an entry, unless the last one is as late.
    pub(crate) fn push(&mut self, timestamp: i64, relative_offset: u32) {
        let new = self
            .entries
            .last()
            .is_none_or(|last| last.0 < timestamp && last.1 < relative_offset);
        if new && timestamp >= 0 {
            self.entries.push((timestamp, relative_offset));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// An offset at or before the first record that is as late as `timestamp`.
    pub(crate) fn relative_offset(&self, timestamp: i64) -> u32 {
        let after = self.entries.partition_point(|(time, _)| *time < timestamp);
        let entry = after.checked_sub(1).and_then(|place| self.entries.get(place));
        entry.map_or(0, |(_, offset)| *offset)
    }

    pub(crate) fn last(&self) -> Option<(i64, u32)> {
        self.entries.last().copied()
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * Self::ENTRY_SIZE);
        for (timestamp, offset) in &self.entries {
            bytes.put_i64(*timestamp);
            bytes.put_u32(*offset);
        }
        bytes
    }

    /// Reads a file; `None` if it cannot be a time index.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut index = Self::default();
        while bytes.remaining() >= Self::ENTRY_SIZE {
            let (timestamp, offset) = (bytes.get_i64(), bytes.get_u32());
            if timestamp == 0 && offset == 0 && bytes.iter().all(|byte| *byte == 0) {
                return Some(index);
            }
            let grows = index
                .entries
                .last()
                .is_none_or(|last| last.0 < timestamp && last.1 < offset);
            if !grows || timestamp < 0 || i32::try_from(offset).is_err() {
                return None;
            }
            index.entries.push((timestamp, offset));
        }
        bytes.is_empty().then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets() -> OffsetIndex {
        OffsetIndex {
            entries: vec![(9, 100), (19, 200), (29, 300)],
        }
    }

    #[test]
    fn an_offset_is_found_from_the_entry_before_it() {
        for (offset, position) in [(0, 0), (8, 0), (9, 100), (18, 100), (19, 200), (1000, 300)] {
            assert_eq!(offsets().position(offset), position, "offset {offset}");
        }
        for (position, boundary) in [(99, 0), (100, 100), (299, 200), (u32::MAX, 300)] {
            assert_eq!(offsets().boundary(position), boundary, "position {position}");
        }
    }

    #[test]
    fn a_time_is_found_from_the_last_entry_that_is_earlier() {
        let mut times = TimeIndex::default();
        for (timestamp, offset) in [(100, 5), (100, 9), (90, 10), (200, 20)] {
            times.push(timestamp, offset);
        }
        assert_eq!(times.entries, [(100, 5), (200, 20)]);
        for (timestamp, offset) in [(0, 0), (100, 0), (101, 5), (200, 5), (201, 20)] {
            assert_eq!(times.relative_offset(timestamp), offset, "time {timestamp}");
        }
    }

    #[test]
    fn files_are_read_back_padded_or_not_and_damage_is_noticed() {
        let bytes = offsets().encode();
        assert_eq!(OffsetIndex::decode(&bytes, 301), Some(offsets()));
        assert_eq!(
            OffsetIndex::decode(&[&bytes[..], &[0; 80]].concat(), 301),
            Some(offsets())
        );
        assert_eq!(OffsetIndex::decode(&bytes, 300), None, "a position after the end");
        assert_eq!(OffsetIndex::decode(&bytes[..23], 301), None);
        assert_eq!(
            OffsetIndex::decode(&[&bytes[..], &bytes[..8]].concat(), 301),
            None,
            "it does not grow"
        );

        let mut times = TimeIndex::default();
        times.push(7, 1);
        let bytes = times.encode();
        assert_eq!(TimeIndex::decode(&[&bytes[..], &[0; 24]].concat()), Some(times));
        assert_eq!(TimeIndex::decode(&bytes[..11]), None);
    }
}
