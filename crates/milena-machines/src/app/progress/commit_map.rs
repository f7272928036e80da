//! The commit map: finished offsets above a committed one, as text in the metadata of the commit.
//!
//! `M1:` and base64, or `M1;` and 15 bits a character where base64 does not fit: Kafka counts characters, not bytes. The
//! bytes are a checksum, the kind, the offset that the map was made for, and then either a bit for each offset or the
//! lengths of unfinished and finished ranges in turn; whichever is shorter. If owners crashed there, their counters come
//! before that: their reach, if it is known, and their number with a bit for whether the last one was in isolation.

mod text;

use super::tracker::{FinishedRange, Tracker};
use crate::app::{CrashCounters, hash::hash};
use text::Alphabet;

/// The seed of the checksum. It must never change.
const SEED: u64 = 0x6d69_6c65_6e61_0001;
const PREFIX_CHARS: usize = 3;
/// Checksum, kind, and the longest offset.
const HEADER_BYTES_MAX: usize = 4 + 1 + 10;
/// The longest crash counters.
const CRASHES_BYTES_MAX: usize = 10 + 5;
const BITMAP: u8 = 0;
const RUNS: u8 = 1;
/// The flag of a kind with crash counters.
const WITH_CRASHES: u8 = 2;

/// The space for a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub chars: usize,
    /// Whether characters may have more than one byte: brokers that are not Kafka may count bytes.
    pub wide: bool,
}

impl Room {
    /// The number of offsets above the commit that fit in any case.
    pub fn offsets(self) -> u64 {
        let bytes = Alphabet::choose(self.wide).bytes(self.chars.saturating_sub(PREFIX_CHARS));
        bytes.saturating_sub(HEADER_BYTES_MAX + CRASHES_BYTES_MAX) as u64 * 8
    }
}

/// An encoded map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EncodedMap {
    /// Empty if nothing is done above the commit.
    pub text: String,
    /// The number of finished offsets in it.
    pub told: u64,
    /// Whether there are more that did not fit.
    pub cut: bool,
}

/// The reason why metadata is not a map for an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    #[error("it was written by Kafka Streams")]
    KafkaStreams,
    #[error("it was written by Confluent's Parallel Consumer")]
    ParallelConsumer,
    #[error("it is not a commit map")]
    Foreign,
    #[error("it has version {0}; only version 1 is supported")]
    Version(char),
    #[error("it is damaged")]
    Damaged,
    #[error("it was made for offset {made_for}, not for {committed}")]
    OtherBase { made_for: i64, committed: i64 },
}

/// The metadata of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitMetadata {
    /// The finished offsets above the commit.
    pub finished: Vec<FinishedRange>,
    pub crashes: CrashCounters,
}

impl CommitMetadata {
    /// The metadata for an offset above the committed one, when everything in between is done.
    ///
    /// Owners that began at the committed offset have got past it. Those that announced no reach are past their records
    /// then, as they are after a commit.
    pub fn since(mut self, committed: i64, offset: i64) -> Self {
        if offset <= committed {
            return self;
        }
        self.finished.retain(|range| range.end > offset);
        for range in &mut self.finished {
            range.start = range.start.max(offset);
        }
        self.crashes.alone = false;
        if self.crashes.reach.is_none_or(|reach| reach <= offset) {
            self.crashes = CrashCounters::default();
        }
        self
    }
}

/// Encodes the finished offsets above the frontier of `tracker`.
pub fn encode(tracker: &Tracker, room: Room) -> EncodedMap {
    encode_with(tracker, CrashCounters::default(), room)
}

/// Like [`encode`], plus the crash counters, which take precedence when space is short.
pub fn encode_with(tracker: &Tracker, crashes: CrashCounters, room: Room) -> EncodedMap {
    let base = tracker.frontier();
    let plain = room.chars.saturating_sub(PREFIX_CHARS);
    let bytes_max = Alphabet::choose(room.wide).bytes(plain);
    // The checksum and the kind are filled in at the end.
    let mut head = vec![0; 5];
    write_varint(&mut head, base as u64);
    let crashes = write_crashes(crashes, base);
    let has_crashes = !crashes.is_empty() && head.len() + crashes.len() <= bytes_max;
    if has_crashes {
        head.extend_from_slice(&crashes);
    }
    let taken = if has_crashes { head.len() } else { HEADER_BYTES_MAX };
    let mut body = Body::new(bytes_max.saturating_sub(taken));
    body.push_all(tracker);
    let (kind, bytes, told) = match body.choose() {
        Some(chosen) => chosen,
        None if has_crashes => (RUNS, vec![], 0),
        None => {
            return EncodedMap {
                cut: body.finished > 0,
                ..EncodedMap::default()
            };
        }
    };
    let cut = told < body.finished;
    let mut payload = head;
    payload.extend_from_slice(&bytes);
    if let Some(place) = payload.get_mut(4) {
        *place = if has_crashes { kind | WITH_CRASHES } else { kind };
    }
    EncodedMap {
        text: to_text(payload, plain, room.wide),
        told,
        cut,
    }
}

/// The payload as text, with its checksum, in the narrowest alphabet that fits.
fn to_text(mut payload: Vec<u8>, plain: usize, wide: bool) -> String {
    let (checksum, covered) = payload.split_at_mut(4);
    checksum.copy_from_slice(&(hash(SEED, covered) as u32).to_le_bytes());
    let narrow = payload.len() <= Alphabet::Base64.bytes(plain);
    let alphabet = Alphabet::choose(wide && !narrow);
    let mut text = String::with_capacity(PREFIX_CHARS + alphabet.text_bytes(payload.len()));
    text.push_str(if alphabet == Alphabet::Base64 { "M1:" } else { "M1;" });
    alphabet.write(&payload, &mut text);
    text
}

/// Decodes the finished offsets above `committed`.
pub fn decode(text: &str, committed: i64) -> Result<Vec<FinishedRange>, MapError> {
    read(text, committed).map(|told| told.finished)
}

/// Decodes the metadata of the commit of this offset.
pub fn read(text: &str, committed: i64) -> Result<CommitMetadata, MapError> {
    if text.is_empty() {
        return Ok(CommitMetadata::default());
    }
    let mut chars = text.chars();
    let (Some('M'), Some(version), Some(mark)) = (chars.next(), chars.next(), chars.next()) else {
        return Err(foreign(text));
    };
    let alphabet = match mark {
        ':' => Alphabet::Base64,
        ';' => Alphabet::Wide,
        _ => return Err(foreign(text)),
    };
    if version != '1' {
        return Err(MapError::Version(version));
    }
    let mut payload = alphabet.read(chars.as_str()).ok_or(MapError::Damaged)?;
    // The last character may have more bits than were written. No encoded payload ends with a zero.
    while payload.last() == Some(&0) {
        payload.pop();
    }
    let (checksum, covered) = payload.split_first_chunk::<4>().ok_or(MapError::Damaged)?;
    if u32::from_le_bytes(*checksum) != hash(SEED, covered) as u32 {
        return Err(MapError::Damaged);
    }
    let (kind, mut body) = covered.split_first().ok_or(MapError::Damaged)?;
    let made_for = read_varint(&mut body).ok_or(MapError::Damaged)? as i64;
    if made_for != committed {
        return Err(MapError::OtherBase { made_for, committed });
    }
    read_body(*kind, body, committed).ok_or(MapError::Damaged)
}

fn read_body(kind: u8, mut body: &[u8], base: i64) -> Option<CommitMetadata> {
    let mut crashes = CrashCounters::default();
    if kind & WITH_CRASHES != 0 {
        crashes = read_crashes(&mut body, base)?;
    }
    let finished = match kind & !WITH_CRASHES {
        BITMAP => read_bitmap(body, base),
        RUNS => read_runs(body, base),
        _ => None,
    };
    Some(CommitMetadata {
        finished: finished?,
        crashes,
    })
}

/// Encodes crash counters; empty without crashes. The bytes do not end with a zero.
fn write_crashes(crashes: CrashCounters, base: i64) -> Vec<u8> {
    let mut bytes = vec![];
    if crashes.count > 0 {
        let reach = crashes.reach.map_or(0, |reach| reach.saturating_sub(base).max(0));
        write_varint(&mut bytes, reach as u64);
        write_varint(&mut bytes, u64::from(crashes.count) << 1 | u64::from(crashes.alone));
    }
    bytes
}

fn read_crashes(from: &mut &[u8], base: i64) -> Option<CrashCounters> {
    let reach = i64::try_from(read_varint(from)?).ok()?;
    let count = read_varint(from)?;
    Some(CrashCounters {
        count: u32::try_from(count >> 1).ok().filter(|count| *count > 0)?,
        reach: (reach > 0).then(|| base.saturating_add(reach)),
        alone: count & 1 == 1,
    })
}

/// Both encodings of the ranges, each as far as it fits.
struct Body {
    bytes_max: usize,
    /// The number of pushed offsets, and of the finished ones.
    pushed: u64,
    finished: u64,
    bitmap: Bitmap,
    runs: Runs,
}

/// A bit for each offset.
#[derive(Default)]
struct Bitmap {
    words: Vec<u64>,
    /// After the last bit that is set.
    end: u64,
    told: u64,
    full: bool,
}

/// The lengths of ranges.
#[derive(Default)]
struct Runs {
    bytes: Vec<u8>,
    told: u64,
    full: bool,
}

impl Body {
    fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            pushed: 0,
            finished: 0,
            bitmap: Bitmap::default(),
            runs: Runs::default(),
        }
    }

    /// Pushes all ranges of a tracker. Without gaps its bits are used as they are.
    fn push_all(&mut self, tracker: &Tracker) {
        let Some(words) = tracker.finished_words() else {
            return tracker.runs(|unfinished, finished| self.push(unfinished, finished));
        };
        tracker.runs(|unfinished, finished| self.runs.push(self.bytes_max, unfinished, finished));
        self.pushed = tracker.end().abs_diff(tracker.frontier());
        self.finished = self.pushed - tracker.pending();
        self.bitmap.fill(self.bytes_max, words);
    }

    /// Returns whether there is space for more.
    fn push(&mut self, unfinished: u64, finished: u64) -> bool {
        self.bitmap.push(
            self.bytes_max,
            self.pushed + unfinished,
            self.pushed + unfinished + finished,
        );
        self.runs.push(self.bytes_max, unfinished, finished);
        self.pushed += unfinished + finished;
        self.finished += finished;
        !(self.bitmap.full && self.runs.full)
    }

    /// The encoding with more offsets; of two with the same, the shorter.
    fn choose(&self) -> Option<(u8, Vec<u8>, u64)> {
        let (bitmap, runs) = (&self.bitmap, &self.runs);
        let bitmap_bytes = bitmap.end.div_ceil(8) as usize;
        if (bitmap.told, runs.bytes.len()) > (runs.told, bitmap_bytes) {
            let bytes = bitmap.words.iter().flat_map(|word| word.to_le_bytes());
            return Some((BITMAP, bytes.take(bitmap_bytes).collect(), bitmap.told));
        }
        (runs.told > 0).then(|| (RUNS, runs.bytes.clone(), runs.told))
    }
}

impl Bitmap {
    fn fill(&mut self, bytes_max: usize, words: impl Iterator<Item = u64>) {
        let (words_max, odd_bits) = (bytes_max / 8, bytes_max % 8 * 8);
        self.words = words.take(bytes_max.div_ceil(8)).collect();
        if let Some(last) = self.words.get_mut(words_max) {
            *last &= (1 << odd_bits) - 1;
        }
        self.told = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
        let last = self.words.iter().enumerate().rfind(|(_, word)| **word != 0);
        self.end = last.map_or(0, |(index, word)| {
            index as u64 * 64 + 64 - u64::from(word.leading_zeros())
        });
    }

    /// Adds a finished range from `start` to before `end`.
    fn push(&mut self, bytes_max: usize, start: u64, end: u64) {
        let bits_max = bytes_max as u64 * 8;
        self.full |= end > bits_max;
        let (mut at, end) = (start, end.min(bits_max));
        if at >= end {
            return;
        }
        if self.words.is_empty() {
            self.words = vec![0; bytes_max.div_ceil(8)];
        }
        self.told += end - at;
        self.end = end;
        while at < end {
            let length = (64 - at % 64).min(end - at);
            if let Some(word) = self.words.get_mut((at / 64) as usize) {
                *word |= (u64::MAX >> (64 - length)) << (at % 64);
            }
            at += length;
        }
    }
}

impl Runs {
    /// Returns whether there is space for more.
    fn push(&mut self, bytes_max: usize, unfinished: u64, finished: u64) -> bool {
        if self.full {
            return false;
        }
        let before = self.bytes.len();
        write_varint(&mut self.bytes, unfinished);
        write_varint(&mut self.bytes, finished);
        if self.bytes.len() > bytes_max {
            self.bytes.truncate(before);
            self.full = true;
        } else {
            self.told += finished;
        }
        !self.full
    }
}

fn read_bitmap(bytes: &[u8], base: i64) -> Option<Vec<FinishedRange>> {
    let mut ranges: Vec<FinishedRange> = vec![];
    for (index, byte) in bytes.iter().enumerate() {
        for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
            let start = base.checked_add(i64::try_from(index * 8 + bit).ok()?)?;
            let end = start.checked_add(1)?;
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(FinishedRange { start, end }),
            }
        }
    }
    Some(ranges)
}

fn read_runs(mut bytes: &[u8], base: i64) -> Option<Vec<FinishedRange>> {
    let mut ranges = vec![];
    let mut at = base;
    while !bytes.is_empty() {
        let start = at.checked_add(i64::try_from(read_varint(&mut bytes)?).ok()?)?;
        let end = start.checked_add(i64::try_from(read_varint(&mut bytes)?).ok()?)?;
        let joins = start == at && !ranges.is_empty();
        if end == start || joins {
            return None;
        }
        ranges.push(FinishedRange { start, end });
        at = end;
    }
    Some(ranges)
}

fn write_varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn read_varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The writer of foreign metadata. Both known ones write base64 with a kind in the first byte.
fn foreign(text: &str) -> MapError {
    const PARALLEL_CONSUMER: &[u8] = b"L\xeelanJosep";
    let bytes = Alphabet::Base64.read(text.trim_end_matches('=')).unwrap_or_default();
    match bytes.first() {
        Some(1 | 2) if bytes.len() >= 9 => MapError::KafkaStreams,
        Some(magic) if bytes.len() > 1 && PARALLEL_CONSUMER.contains(magic) => MapError::ParallelConsumer,
        _ => MapError::Foreign,
    }
}

#[cfg(test)]
mod tests;
