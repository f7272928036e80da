//! Parked records by due time.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::app::ids::RecordIndex;

/// Records by the time when they are due. Stale ones are recognized when they come up.
#[derive(Debug, Default)]
pub(super) struct Parked {
    heap: BinaryHeap<Reverse<(i64, RecordIndex, u32)>>,
}

impl Parked {
    pub(super) fn push(&mut self, due_ms: i64, index: RecordIndex, serial: u32) {
        self.heap.push(Reverse((due_ms, index, serial)));
    }

    pub(super) fn next_due(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((due_ms, ..))| *due_ms)
    }

    /// Index, serial and time of the first record that is due.
    pub(super) fn pop_due(&mut self, now_ms: i64) -> Option<(RecordIndex, u32, i64)> {
        if self.next_due()? > now_ms {
            return None;
        }
        let Reverse((due_ms, index, serial)) = self.heap.pop()?;
        Some((index, serial, due_ms))
    }

    pub(super) fn retain(&mut self, mut keep: impl FnMut(RecordIndex, u32) -> bool) {
        self.heap.retain(|Reverse((_, index, serial))| keep(*index, *serial));
    }
}
