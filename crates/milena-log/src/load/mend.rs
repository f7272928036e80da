//! Taking damage out of a log, and closing the gap that it leaves.

use std::sync::Arc;

use milena_wire::records::BatchHeader;

use super::{Loader, WINDOW, remove_segment};
use crate::{
    damage::{self, Damage},
    disk::with_suffix,
    error::{Doing, StorageError},
    segment::{Segment, file_name},
    survey::{self, Span},
};

impl Loader<'_> {
    /// Cuts damaged bytes off the end of a segment, and keeps them.
    pub(super) fn cut_tail(
        &mut self,
        segment: &Segment,
        size: u32,
        tail: &Span,
        next: Option<i64>,
    ) -> Result<(), StorageError> {
        let kept = damage::keep_part(&**self.disk, segment, tail.start, tail.end)?;
        segment.truncate(tail.start)?;
        segment.sync()?;
        let was_longer = self.opening.known.is_some_and(|known| {
            next.is_none() && known.active_base == segment.base_offset && known.active_size > size
        });
        self.tail_was_cut = !was_longer;
        self.end_by_bytes = self.end_by_bytes.max(tail.to_offset);
        let to_offset = match self.opening.known {
            Some(known) => known.high_watermark.max(tail.from_offset),
            None => tail.to_offset,
        };
        self.told_to = to_offset;
        self.recovery.damage.push(Damage {
            from_offset: tail.from_offset,
            to_offset,
            bytes: u64::from(tail.end - tail.start),
            records: tail.records,
            reason: format!(
                "{} at byte {} of {}",
                tail.reason,
                tail.start,
                file_name(segment.base_offset, "log")
            ),
            kept: vec![kept],
        });
        Ok(())
    }

    /// Rewrites a segment without its damaged parts, which are preserved; returns the new one.
    pub(super) fn take_out(&mut self, segment: &Segment, size: u32, holes: &[Span]) -> Result<Segment, StorageError> {
        let path = segment.path_of("log");
        let new = with_suffix(&path, ".tmp");
        let file = self.disk.create(&new).doing("create", &new)?;
        let (mut from, mut end) = (0, 0);
        let rest = Span {
            start: size,
            end: size,
            from_offset: 0,
            to_offset: 0,
            records: 0,
            reason: String::new(),
            torn: false,
        };
        for hole in holes.iter().chain([&rest]) {
            while from < hole.start {
                let bytes = segment.read(from, WINDOW.min((hole.start - from) as usize))?;
                file.write_at(&bytes, &[], end).doing("write", &new)?;
                (from, end) = (from + bytes.len() as u32, end + bytes.len() as u64);
            }
            for filler in self.fillers(hole.from_offset, hole.to_offset) {
                let bytes = filler.to_bytes();
                file.write_at(&bytes, &[], end).doing("write", &new)?;
                end += bytes.len() as u64;
            }
            from = hole.end;
        }
        file.sync().doing("sync", &new)?;
        for hole in holes {
            let kept = damage::keep_part(&**self.disk, segment, hole.start, hole.end)?;
            self.recovery.damage.push(Damage {
                from_offset: hole.from_offset,
                to_offset: hole.to_offset,
                bytes: u64::from(hole.end - hole.start),
                records: hole.records,
                reason: format!(
                    "{} at byte {} of {}",
                    hole.reason,
                    hole.start,
                    file_name(segment.base_offset, "log")
                ),
                kept: vec![kept],
            });
        }
        self.disk.rename(&new, &path).doing("rename", &path)?;
        self.disk.sync_dir(self.dir).doing("sync", self.dir)?;
        Ok(Segment::new(Arc::clone(self.disk), self.dir, segment.base_offset))
    }

    fn fillers(&self, from: i64, to: i64) -> Vec<BatchHeader> {
        damage::fillers(from, to, self.epochs.latest().unwrap_or(0))
    }

    /// Keeps a segment that cannot be a part of the log any more under another name.
    pub(super) fn put_aside(&mut self, segment: &Segment, end_offset: i64) -> Result<(), StorageError> {
        let size = segment.file_size()?;
        let mut records = 0;
        let mut end_by_bytes = segment.base_offset;
        // As far as it is readable; the rest is preserved with the damage.
        let _ = segment.scan_by(WINDOW, 0, size, |batch| {
            if batch.verify().is_ok() {
                records += survey::record_count(batch);
                end_by_bytes = end_by_bytes.max(batch.last_offset() + 1);
            }
            false
        });
        self.end_by_bytes = self.end_by_bytes.max(end_by_bytes);
        let kept = damage::keep_whole(&**self.disk, segment)?;
        remove_segment(&**self.disk, segment)?;
        let from_offset = end_offset.max(self.told_to);
        let to_offset = match self.opening.known {
            Some(known) => known.high_watermark.min(end_by_bytes),
            None => end_by_bytes,
        };
        self.told_to = to_offset.max(from_offset);
        self.recovery.damage.push(Damage {
            from_offset,
            to_offset: self.told_to,
            bytes: u64::from(size),
            records,
            reason: format!(
                "segment {} cannot follow offset {}",
                file_name(segment.base_offset, "log"),
                end_offset - 1
            ),
            kept: vec![kept],
        });
        Ok(())
    }

    /// Fills the gap before a segment, if it may be there: compaction by Kafka leaves some, and a loss may be accepted.
    pub(super) fn bridge(&mut self, before: Option<&Arc<Segment>>, from: i64, to: i64) -> Result<(), StorageError> {
        let is_foreign = self.opening.known.is_none() && self.config.compact;
        let reason = format!("no segment holds them; the next one is {}", file_name(to, "log"));
        if !is_foreign && !self.opening.accept_loss {
            return Err(self.missing(from, to, reason));
        }
        if !is_foreign {
            self.recovery.damage.push(Damage {
                from_offset: from,
                to_offset: to,
                bytes: 0,
                records: 0,
                reason,
                kept: vec![],
            });
        }
        if let Some(segment) = before {
            segment.fill(self.config, &self.fillers(from, to))?;
            self.read.insert(segment.base_offset);
        }
        Ok(())
    }

    /// Refuses a file that holds the batches of another segment: one batch with a lower offset may be damaged, two are not.
    pub(super) fn check_own(&self, segment: &Segment, size: u32) -> Result<(), StorageError> {
        let Ok(Some(first)) = segment.read_batch(0, size) else {
            return Ok(());
        };
        let is_lower = |offset: i64| (0..segment.base_offset).contains(&offset);
        let second = survey::next_offset(segment, first.batch.size() as u32);
        if first.batch.verify().is_err()
            || !is_lower(survey::first_offset(&first.batch))
            || !second.is_some_and(is_lower)
        {
            return Ok(());
        }
        let reason = "its batches have lower offsets than its name; were files exchanged? Restore them from a copy";
        Err(StorageError::damaged(&segment.path_of("log"), reason))
    }

    /// Refuses a segment that overlaps the previous one, unless losses are accepted.
    pub(super) fn check_overlap(&self, segment: &Segment, end_offset: i64) -> Result<(), StorageError> {
        if self.opening.accept_loss {
            return Ok(());
        }
        let reason = format!(
            "it begins before offset {end_offset}, where the segment before it ends; were files exchanged? Restore them \
             from a copy"
        );
        Err(StorageError::damaged(&segment.path_of("log"), reason))
    }

    /// Decides the end offset of the log. Its last batch must be the recorded one, and no offset that readers
    /// have seen may be assigned again.
    pub(super) fn settle_end(&mut self, segments: &mut Vec<Arc<Segment>>, data_end: i64) -> Result<i64, StorageError> {
        let known = self.opening.known;
        let accepts = self.opening.accept_loss;
        if data_end < self.floor && !self.tail_was_cut && !accepts {
            return Err(self.missing(data_end, self.floor, "the log ends before them".to_owned()));
        }
        // Damage may have removed the batch to compare with.
        let is_other = self.recovery.damage.is_empty()
            && known.is_some_and(|known| {
                let is_there = segments.iter().any(|segment| segment.base_offset == known.active_base);
                is_there
                    && data_end >= known.end_offset
                    && known.last_crc.is_some()
                    && known.last_crc != self.crc_at_mark
            });
        if is_other && !accepts {
            let reason = "its last batch is not the one that was written; were files exchanged? Restore them from a copy, or \
                          start once with milena.recovery=accept-loss to take them as they are";
            return Err(StorageError::damaged(self.dir, reason));
        }
        let seen = match known {
            Some(known) => known.high_watermark,
            None => self.end_by_bytes,
        };
        let end_offset = data_end.max(seen).max(self.opening.recovery_point);
        if end_offset == data_end {
            return Ok(end_offset);
        }
        let told_to = self.told_to.max(data_end);
        if told_to < end_offset {
            self.recovery.damage.push(Damage {
                from_offset: told_to,
                to_offset: end_offset,
                bytes: 0,
                records: 0,
                reason: "they are not on disk".to_owned(),
                kept: vec![],
            });
        }
        if segments.is_empty() {
            self.disk.create_dir(self.dir).doing("create", self.dir)?;
            segments.push(Arc::new(Segment::new(Arc::clone(self.disk), self.dir, data_end)));
        }
        if let Some(segment) = segments.last() {
            let fillers = self.fillers(data_end, end_offset);
            segment.fill(self.config, &fillers)?;
            self.read.insert(segment.base_offset);
            self.last_crc = fillers.last().map(|filler| filler.crc);
        }
        self.disk.sync_dir(self.dir).doing("sync", self.dir)?;
        Ok(end_offset)
    }

    pub(super) fn missing(&self, from: i64, to: i64, reason: String) -> StorageError {
        StorageError::Missing {
            dir: self.dir.to_owned(),
            from,
            to,
            reason,
        }
    }
}
