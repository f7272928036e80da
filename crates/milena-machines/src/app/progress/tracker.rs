//! The tracker: which offsets of a partition are done.
//!
//! Each delivered offset has a bit that is set while it is unfinished, in a ring that begins at the lowest such offset.
//! Offsets that were never delivered, because of compaction, transaction markers or aborted batches, count as done.

use std::collections::VecDeque;

/// A gap of more offsets than this starts a new segment, which takes less memory than its bits.
const GAP_BITS_MAX: i64 = 256;

/// Delivered and finished offsets of one assignment of a partition.
#[derive(Debug)]
pub struct Tracker {
    epoch: u32,
    /// Set bits are unfinished.
    words: VecDeque<u64>,
    /// The number of the first bit of `words`; a multiple of 64.
    first_bit: u64,
    /// The number after the last bit in use.
    end_bit: u64,
    /// The lowest set bit, if there is one.
    head_bit: u64,
    /// The offsets of the bits. Most partitions have one segment.
    segments: VecDeque<Segment>,
    /// Offsets below are delivered, or do not exist.
    end: i64,
    /// Leader epochs, each from an offset on.
    leader_epochs: VecDeque<(i64, i32)>,
    /// Done in an earlier assignment and not delivered yet: sorted, disjoint, all at `end` or above.
    restored: VecDeque<FinishedRange>,
    pending: u64,
    pending_bytes: u64,
    version: u64,
}

/// Consecutive offsets with consecutive bits, up to the next segment.
#[derive(Debug, Clone, Copy)]
struct Segment {
    offset: i64,
    bit: u64,
}

/// Finished offsets from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FinishedRange {
    pub start: i64,
    pub end: i64,
}

/// The state of an offset when it is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryResult {
    /// It is unfinished.
    Pending,
    /// It was done in an earlier assignment.
    Finished,
    /// It was delivered before.
    Twice,
}

/// The result of a completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompletionResult {
    Done,
    /// It is done already, or was never delivered.
    Unknown,
    /// It is of another assignment.
    Stale,
}

impl Tracker {
    /// Begins at `position`. Ranges that are done above it are `restored`: sorted and disjoint.
    pub fn new(epoch: u32, position: i64, restored: Vec<FinishedRange>) -> Self {
        Self {
            epoch,
            words: VecDeque::new(),
            first_bit: 0,
            end_bit: 0,
            head_bit: 0,
            segments: VecDeque::new(),
            end: position,
            leader_epochs: VecDeque::new(),
            restored: restored.into(),
            pending: 0,
            pending_bytes: 0,
            version: 0,
        }
    }

    /// Sets the leader epoch of the record before the position.
    pub fn begin_after(&mut self, leader_epoch: Option<i32>) {
        self.note_leader_epoch(i64::MIN, leader_epoch);
    }

    /// Notes a record that was read.
    pub fn deliver(&mut self, offset: i64, leader_epoch: Option<i32>, bytes: u64) -> DeliveryResult {
        if offset < self.end {
            return DeliveryResult::Twice;
        }
        self.note_leader_epoch(offset, leader_epoch);
        let finished = self.take_restored(offset);
        if self.pending == 0 && finished {
            self.end = offset + 1;
            self.version += 1;
            return DeliveryResult::Finished;
        }
        let bit = self.place(offset);
        self.end = offset + 1;
        if finished {
            self.version += 1;
            return DeliveryResult::Finished;
        }
        if let Some(word) = self.words.back_mut() {
            *word |= 1 << (bit % 64);
        }
        if self.pending == 0 {
            self.head_bit = bit;
        }
        self.pending += 1;
        self.pending_bytes += bytes;
        DeliveryResult::Pending
    }

    /// Notes a run without gaps. Returns `false` and changes nothing if its records must be delivered one by one.
    pub fn deliver_run(&mut self, offset: i64, count: u32, leader_epoch: Option<i32>, bytes: u64) -> bool {
        if offset < self.end || !self.restored.is_empty() || count == 0 {
            return false;
        }
        self.note_leader_epoch(offset, leader_epoch);
        let bit = self.place(offset);
        if self.pending == 0 {
            self.head_bit = bit;
        }
        self.end_bit = bit + u64::from(count);
        let words = (self.end_bit - self.first_bit).div_ceil(64);
        self.words.resize(words as usize, 0);
        self.each_word(bit, count, |word, mask| *word |= mask);
        self.end = offset + i64::from(count);
        self.pending += u64::from(count);
        self.pending_bytes += bytes;
        true
    }

    /// Notes that offsets below `next` that were not delivered do not exist.
    pub fn advance(&mut self, next: i64) {
        if next > self.end {
            self.end = next;
            self.version += 1;
            self.drop_restored(next);
        }
    }

    /// Marks a record as done.
    pub fn complete(&mut self, epoch: u32, offset: i64, bytes: u64) -> CompletionResult {
        if epoch != self.epoch {
            return CompletionResult::Stale;
        }
        let Some(bit) = self.bit_of(offset) else {
            return CompletionResult::Unknown;
        };
        let mask = 1_u64 << (bit % 64);
        let index = (bit - self.first_bit) / 64;
        let Some(word) = self.words.get_mut(index as usize) else {
            return CompletionResult::Unknown;
        };
        if *word & mask == 0 {
            return CompletionResult::Unknown;
        }
        *word &= !mask;
        self.pending -= 1;
        self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
        self.version += 1;
        if bit == self.head_bit && self.pending > 0 {
            self.find_head();
        }
        CompletionResult::Done
    }

    /// Marks a run, or a part of one, as done. Returns how many records were not done before.
    pub fn complete_run(&mut self, epoch: u32, offset: i64, count: u32, bytes: u64) -> u64 {
        let Some(bit) = self.bit_of(offset).filter(|_| epoch == self.epoch) else {
            return 0;
        };
        let mut done = 0;
        self.each_word(bit, count, |word, mask| {
            done += u64::from((*word & mask).count_ones());
            *word &= !mask;
        });
        self.pending -= done;
        self.pending_bytes = self.pending_bytes.saturating_sub(bytes);
        self.version += done;
        if bit == self.head_bit && self.pending > 0 {
            self.find_head();
        }
        done
    }

    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The number of unfinished records.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    pub fn pending_bytes(&self) -> u64 {
        self.pending_bytes
    }

    /// Changes whenever there is something new to commit.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The next offset that can be delivered.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// The offset to commit: the lowest unfinished one, or else the end.
    pub fn frontier(&self) -> i64 {
        match self.segments.front() {
            Some(segment) if self.pending > 0 => segment.offset + (self.head_bit - segment.bit) as i64,
            _ => self.end,
        }
    }

    /// The leader epoch of the record before the frontier.
    pub fn leader_epoch(&mut self) -> Option<i32> {
        let frontier = self.frontier();
        while self.leader_epochs.get(1).is_some_and(|(from, _)| *from < frontier) {
            self.leader_epochs.pop_front();
        }
        let first = self.leader_epochs.front()?;
        (first.0 < frontier).then_some(first.1)
    }

    /// Calls `take` with the lengths of unfinished and finished ranges in turn, from the frontier on, until it returns
    /// `false`.
    pub fn runs(&self, mut take: impl FnMut(u64, u64) -> bool) {
        let mut runs = Runs::default();
        let mut go_on = true;
        if self.pending > 0 {
            let mut segments = self.segments.iter().peekable();
            let mut from_bit = self.head_bit;
            while let Some(segment) = segments.next() {
                let to_bit = segments.peek().map_or(self.end_bit, |next| next.bit);
                go_on = go_on && self.bit_runs(from_bit, to_bit, |set, length| runs.push(!set, length, &mut take));
                from_bit = to_bit;
                let segment_end = segment.offset + (to_bit - segment.bit) as i64;
                let next = segments.peek().map_or(self.end, |next| next.offset);
                go_on = go_on && runs.push(true, (next - segment_end) as u64, &mut take);
            }
        }
        let mut at = self.end;
        for range in &self.restored {
            go_on = go_on
                && runs.push(false, (range.start - at) as u64, &mut take)
                && runs.push(true, (range.end - range.start) as u64, &mut take);
            at = range.end;
        }
        if go_on {
            runs.end(&mut take);
        }
    }

    /// A bit for each offset from the frontier on, set if it is done; `None` if there are gaps between delivered offsets.
    pub fn finished_words(&self) -> Option<impl Iterator<Item = u64>> {
        let segment = self.segments.front().filter(|_| self.pending > 0)?;
        let end = segment.offset + (self.end_bit - segment.bit) as i64;
        if self.segments.len() > 1 || !self.restored.is_empty() || end != self.end {
            return None;
        }
        let first = ((self.head_bit - self.first_bit) / 64) as usize;
        let shift = self.head_bit % 64;
        let word = |index: usize| self.words.get(index).copied().unwrap_or(0);
        Some(
            (self.head_bit..self.end_bit)
                .step_by(64)
                .zip(first..)
                .map(move |(bit, index)| {
                    let next = word(index + 1).checked_shl((64 - shift) as u32).unwrap_or(0);
                    let unfinished = word(index) >> shift | next;
                    let left = (self.end_bit - bit).min(64);
                    !unfinished & (u64::MAX >> (64 - left))
                }),
        )
    }

    /// Whether an offset is done in this assignment, or was done before it.
    pub fn is_done(&self, offset: i64) -> bool {
        let Some(bit) = self.bit_of(offset) else {
            return offset < self.end
                || self
                    .restored
                    .iter()
                    .any(|range| (range.start..range.end).contains(&offset));
        };
        let word = self.words.get(((bit - self.first_bit) / 64) as usize);
        word.is_none_or(|word| word & (1_u64 << (bit % 64)) == 0)
    }

    /// The memory of the bits.
    pub fn memory(&self) -> usize {
        self.words.capacity() * size_of::<u64>() + self.segments.capacity() * size_of::<Segment>()
    }

    fn bit_runs(&self, mut from: u64, to: u64, mut each: impl FnMut(bool, u64) -> bool) -> bool {
        while from < to {
            let index = (from - self.first_bit) / 64;
            let word = self.words.get(index as usize).copied().unwrap_or(0) >> (from % 64);
            let left = (64 - from % 64).min(to - from);
            let set = word & 1 == 1;
            let same = if set {
                word.trailing_ones()
            } else {
                word.trailing_zeros()
            };
            let length = u64::from(same).min(left);
            if !each(set, length) {
                return false;
            }
            from += length;
        }
        true
    }

    /// Adds a bit for an offset at or above the end.
    fn place(&mut self, offset: i64) -> u64 {
        if self.pending == 0 {
            self.words.clear();
            self.segments.clear();
            self.first_bit = 0;
            self.end_bit = 0;
        }
        let last = self.segments.back();
        let gap = last.map(|last| offset - last.offset - (self.end_bit - last.bit) as i64);
        match gap {
            Some(gap) if gap <= GAP_BITS_MAX => self.end_bit += gap as u64,
            _ => self.segments.push_back(Segment {
                offset,
                bit: self.end_bit,
            }),
        }
        let bit = self.end_bit;
        self.end_bit += 1;
        let words = (self.end_bit - self.first_bit).div_ceil(64);
        while (self.words.len() as u64) < words {
            self.words.push_back(0);
        }
        bit
    }

    /// Calls `each` with the words of `count` bits from `bit` on, and the masks of those bits.
    fn each_word(&mut self, bit: u64, count: u32, mut each: impl FnMut(&mut u64, u64)) {
        let (mut bit, end) = (bit, bit + u64::from(count));
        while bit < end {
            let length = (64 - bit % 64).min(end - bit);
            let mask = (u64::MAX >> (64 - length)) << (bit % 64);
            if let Some(word) = self.words.get_mut(((bit - self.first_bit) / 64) as usize) {
                each(word, mask);
            }
            bit += length;
        }
    }

    fn bit_of(&self, offset: i64) -> Option<u64> {
        let mut index = 0;
        if self.segments.len() > 1 {
            index = self
                .segments
                .partition_point(|segment| segment.offset <= offset)
                .checked_sub(1)?;
        }
        let segment = self.segments.get(index)?;
        let bit = segment.bit.checked_add_signed(offset.checked_sub(segment.offset)?)?;
        let end = self.segments.get(index + 1).map_or(self.end_bit, |next| next.bit);
        (bit >= segment.bit.max(self.head_bit) && bit < end && self.pending > 0).then_some(bit)
    }

    /// Moves the head to the next unfinished bit and drops everything before it.
    fn find_head(&mut self) {
        while self.words.front() == Some(&0) {
            self.words.pop_front();
            self.first_bit += 64;
        }
        let word = self.words.front().copied().unwrap_or(0);
        self.head_bit = self.first_bit + u64::from(word.trailing_zeros());
        while self.segments.get(1).is_some_and(|next| next.bit <= self.head_bit) {
            self.segments.pop_front();
        }
    }

    fn note_leader_epoch(&mut self, offset: i64, leader_epoch: Option<i32>) {
        let Some(epoch) = leader_epoch else { return };
        if self.leader_epochs.back().is_none_or(|(_, last)| *last != epoch) {
            self.leader_epochs.push_back((offset, epoch));
        }
    }

    fn take_restored(&mut self, offset: i64) -> bool {
        if self.restored.is_empty() {
            return false;
        }
        self.drop_restored(offset);
        let finished = self.restored.front().is_some_and(|range| range.start <= offset);
        self.drop_restored(offset + 1);
        finished
    }

    /// Drops restored ranges below `offset`, which are delivered.
    fn drop_restored(&mut self, offset: i64) {
        while self.restored.front().is_some_and(|range| range.end <= offset) {
            self.restored.pop_front();
        }
        if let Some(range) = self.restored.front_mut() {
            range.start = range.start.max(offset);
        }
    }
}

/// Joins adjacent ranges of the same kind.
#[derive(Debug, Default)]
struct Runs {
    unfinished: u64,
    finished: u64,
}

impl Runs {
    fn push(&mut self, finished: bool, length: u64, take: &mut impl FnMut(u64, u64) -> bool) -> bool {
        if length == 0 {
            return true;
        }
        if finished {
            self.finished += length;
            return true;
        }
        let go_on = self.finished == 0 || take(self.unfinished, self.finished);
        if self.finished > 0 {
            *self = Self::default();
        }
        self.unfinished += length;
        go_on
    }

    fn end(&mut self, take: &mut impl FnMut(u64, u64) -> bool) {
        if self.finished > 0 {
            take(self.unfinished, self.finished);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
