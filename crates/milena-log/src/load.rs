//! Opens a log: trusts segments that were closed or synced, reads all others, and cuts off damage.
//!
//! Three kinds of loss are distinguished. Unsynced bytes may be lost in a crash: the log then ends before the first
//! batch that is missing or damaged. Damaged bytes that were synced are taken out, and the batches after them are
//! kept. If synced bytes are missing altogether, a file was removed or cut, and may be restored: the log is not
//! opened.
//!
//! Offsets that readers have seen are never assigned again: batches without records stand for the lost ones.

mod mend;
mod replay;

use std::{collections::BTreeSet, path::Path, sync::Arc};

use milena_wire::records::Batch;

use crate::{
    checkpoint, cleaner,
    config::LogConfig,
    damage::{Damage, Recovery},
    disk::Disk,
    epochs::LeaderEpochs,
    error::{Doing, StorageError},
    ledger::LogMark,
    segment::{Segment, base_offset_of, file_name},
    sums,
    survey::{self, Rules, Span},
    writer::Writer,
};

/// The file of leader epochs in a partition's folder.
pub(crate) const EPOCHS: &str = "leader-epoch-checkpoint";

/// Bytes per read when a whole segment is read.
const WINDOW: usize = 1 << 20;

/// The state in which the previous process left a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Opening {
    /// Whether it ended cleanly; then files are trusted without reading them.
    pub clean: bool,
    /// Everything below was synced, and is trusted in any case.
    pub recovery_point: i64,
    pub log_start_offset: i64,
    /// The last state that the ledger has of the log. The log must not have become shorter since.
    pub known: Option<LogMark>,
    /// Whether to open a log of which synced records are missing, rather than to refuse.
    pub accept_loss: bool,
}

pub(crate) fn load(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    config: &LogConfig,
    opening: Opening,
) -> Result<(Writer, Recovery), StorageError> {
    let mut loader = Loader::new(disk, dir, config, opening);
    match loader.load() {
        // A segment that was trusted is damaged, so none is.
        Err(StorageError::Damaged { .. }) if !loader.distrusts => {
            let mut loader = Loader::new(disk, dir, config, opening);
            loader.distrusts = true;
            loader.load()
        }
        loaded => loaded,
    }
}

/// Removes the files of a segment.
pub(crate) fn remove_segment(disk: &dyn Disk, segment: &Segment) -> Result<(), StorageError> {
    segment.paths().iter().try_for_each(|path| remove_if_there(disk, path))
}

pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<(), StorageError> {
    if disk.exists(path).doing("look for", path)? {
        disk.remove(path).doing("remove", path)?;
    }
    Ok(())
}

struct Loader<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    config: &'a LogConfig,
    opening: Opening,
    epochs: LeaderEpochs,
    /// Whether indexes may be believed at all.
    distrusts: bool,
    /// Below this offset all records were synced, as far as is known.
    floor: i64,
    recovery: Recovery,
    /// The checksum of the last batch of the last segment.
    last_crc: Option<u32>,
    /// The checksum of the batch that ended the log when its state was noted.
    crc_at_mark: Option<u32>,
    /// Base offsets of the segments whose indexes must be written.
    read: BTreeSet<i64>,
    /// Whether damaged bytes at the end of the log were cut off and nothing else is missing there.
    tail_was_cut: bool,
    /// The end of the log by the bytes that were cut off.
    end_by_bytes: i64,
    /// End of the offsets that were reported as missing at the end of the log.
    told_to: i64,
}

impl<'a> Loader<'a> {
    fn new(disk: &'a Arc<dyn Disk>, dir: &'a Path, config: &'a LogConfig, opening: Opening) -> Self {
        let seen = opening.known.map_or(0, |known| known.high_watermark);
        Self {
            disk,
            dir,
            config,
            opening,
            epochs: LeaderEpochs::default(),
            distrusts: false,
            floor: match opening.clean {
                true => seen.max(opening.recovery_point),
                false => opening.recovery_point,
            },
            recovery: Recovery::default(),
            last_crc: None,
            crc_at_mark: None,
            read: BTreeSet::new(),
            tail_was_cut: false,
            end_by_bytes: 0,
            told_to: 0,
        }
    }

    fn load(&mut self) -> Result<(Writer, Recovery), StorageError> {
        let (disk, opening) = (Arc::clone(self.disk), self.opening);
        cleaner::complete_swaps(&disk, self.dir)?;
        let names = self.names()?;
        self.read_epochs(&names);
        let bases: Vec<i64> = names.iter().filter_map(|name| base_offset_of(name, "log")).collect();
        self.check_start(&bases)?;
        let (mut segments, mut data_end) = self.segments(&bases)?;
        if data_end < opening.log_start_offset {
            // A crash lost records beyond the deleted ones. Their offsets are not assigned again.
            for segment in segments.drain(..) {
                remove_segment(&*disk, &segment)?;
            }
            self.read.clear();
            data_end = opening.log_start_offset;
        }
        let end_offset = self.settle_end(&mut segments, data_end)?;
        self.remove_leftovers(&names)?;
        let first_offset = segments.first().map_or(end_offset, |first| first.base_offset);
        let log_start_offset = opening.log_start_offset.max(first_offset);
        self.epochs.truncate_end(end_offset);
        let producers = self.producers(&names, &segments, data_end)?;
        let is_clean = opening.clean && end_offset == data_end && self.recovery.damage.is_empty();
        let settled_offset = match opening.clean {
            true => producers.first_open_offset().unwrap_or(end_offset),
            // Until everything is synced, a transaction below may lose its marker in a power cut.
            false => log_start_offset,
        };
        let writer = Writer {
            segments,
            producers,
            epochs: Arc::new(std::mem::take(&mut self.epochs)),
            log_start_offset,
            first_dirty_offset: log_start_offset,
            end_offset,
            // Bytes that were read back after a crash exist, but only a sync makes them durable.
            synced_offset: match is_clean {
                true => end_offset,
                false => opening.recovery_point.min(end_offset),
            },
            settled_offset,
            // A partition that was never written to has no folder, and so no names.
            new_names: !is_clean && !names.is_empty(),
            last_crc: self.last_crc,
        };
        Ok((writer, std::mem::take(&mut self.recovery)))
    }

    fn names(&self) -> Result<Vec<String>, StorageError> {
        if !self.disk.exists(self.dir).doing("look for", self.dir)? {
            return Ok(vec![]);
        }
        let entries = self.disk.list(self.dir).doing("list", self.dir)?;
        let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        Ok(names)
    }

    /// Reads the leader epochs. If they cannot be read, all segments are, because the batches know their epochs too.
    fn read_epochs(&mut self, names: &[String]) {
        if !names.iter().any(|name| name == EPOCHS) {
            return;
        }
        match checkpoint::read_epochs(&**self.disk, &self.dir.join(EPOCHS)) {
            Ok(epochs) => self.epochs = LeaderEpochs::from_checkpoint(epochs),
            Err(_) => self.distrusts = true,
        }
    }

    /// Removes files that a crash left unfinished.
    fn remove_leftovers(&self, names: &[String]) -> Result<(), StorageError> {
        let has_log = |base_offset| names.contains(&file_name(base_offset, "log"));
        for name in names {
            let unfinished = [".tmp", ".cleaned", ".deleted"]
                .iter()
                .any(|ending| name.ends_with(ending));
            let orphan = ["index", "timeindex", "txnindex", sums::ENDING]
                .iter()
                .find_map(|ending| base_offset_of(name, ending))
                .is_some_and(|base_offset| !has_log(base_offset));
            if unfinished || orphan {
                remove_if_there(&**self.disk, &self.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// Checks that the log begins at the known start. Retention may have removed segments just before a crash.
    fn check_start(&mut self, bases: &[i64]) -> Result<(), StorageError> {
        let (Some(first), Some(known)) = (bases.first().copied(), self.opening.known) else {
            return Ok(());
        };
        let start = known.log_start_offset;
        if first <= start {
            return Ok(());
        }
        let reason = format!("the first segment is {}", file_name(first, "log"));
        if self.opening.clean && !self.opening.accept_loss {
            return Err(self.missing(start, first, reason));
        }
        self.recovery.damage.push(Damage {
            from_offset: start,
            to_offset: first,
            bytes: 0,
            records: 0,
            reason: format!("{reason}; retention removed them just before the broker stopped, or files were removed"),
            kept: vec![],
        });
        Ok(())
    }

    /// The segments that hold good, and the offset after the last record.
    fn segments(&mut self, bases: &[i64]) -> Result<(Vec<Arc<Segment>>, i64), StorageError> {
        let mut segments: Vec<Arc<Segment>> = vec![];
        let mut end_offset = bases.first().copied().unwrap_or(self.opening.log_start_offset);
        let mut is_cut = false;
        for (place, base_offset) in bases.iter().copied().enumerate() {
            let segment = Segment::new(Arc::clone(self.disk), self.dir, base_offset);
            // Unsynced bytes are lost from the first gap on.
            let unsynced = !self.opening.clean && base_offset > self.opening.recovery_point;
            let misfits = place > 0 && base_offset != end_offset;
            if is_cut || (misfits && unsynced) {
                if end_offset < self.floor.min(base_offset) && !is_cut && !self.opening.accept_loss {
                    let reason = format!(
                        "no segment holds them; the next one is {}",
                        file_name(base_offset, "log")
                    );
                    return Err(self.missing(end_offset, base_offset, reason));
                }
                is_cut |= base_offset > end_offset;
                self.tail_was_cut |= is_cut;
                self.put_aside(&segment, end_offset)?;
                continue;
            }
            if misfits && base_offset > end_offset {
                self.bridge(segments.last(), end_offset, base_offset)?;
                end_offset = base_offset;
            } else if misfits {
                self.check_overlap(&segment, end_offset)?;
                self.put_aside(&segment, end_offset)?;
                continue;
            }
            let next = bases.get(place + 1).copied();
            let (segment, end) = self.segment(segment, end_offset.max(base_offset), next)?;
            is_cut = self.tail_was_cut;
            end_offset = end;
            segments.push(Arc::new(segment));
        }
        if !self.recovery.damage.is_empty() {
            // A second crash must not bring back the cut-off bytes: behind new records they could look
            // valid.
            self.disk.sync_dir(self.dir).doing("sync", self.dir)?;
        }
        Ok((segments, end_offset))
    }

    /// Loads one segment, by trust or by reading it; returns the offset after its last record.
    fn segment(&mut self, segment: Segment, expected: i64, next: Option<i64>) -> Result<(Segment, i64), StorageError> {
        let synced = self.opening.clean || next.is_some_and(|next| next <= self.opening.recovery_point);
        if synced
            && !self.distrusts
            && let Some(end) = self.trust(&segment)?
            && self.ends_right(end, next)
        {
            return Ok((segment, end));
        }
        self.read.insert(segment.base_offset);
        self.recover(segment, expected, next)
    }

    /// Whether a segment ends where the next one begins, or where the log ended. A batch's checksum does not
    /// cover its offset, so on a mismatch the whole segment is read.
    fn ends_right(&self, end_offset: i64, next: Option<i64>) -> bool {
        match next {
            Some(next) => end_offset == next,
            None => self.opening.known.is_none_or(|known| known.end_offset == end_offset),
        }
    }

    /// Loads a segment by its indexes, and scans only the batches after their last entry; `None` if they do not
    /// fit.
    fn trust(&mut self, segment: &Segment) -> Result<Option<i64>, StorageError> {
        let size = segment.file_size()?;
        if !segment.load_indexes(size)? {
            return Ok(None);
        }
        let mut end_offset = segment.base_offset;
        let mut last_crc = None;
        let known_end = self.opening.known.map(|known| known.end_offset);
        let position = segment.last_indexed_position();
        let noted = segment.scan(position, size, |batch| {
            end_offset = batch.last_offset() + 1;
            last_crc = survey::crc_of(batch);
            if known_end == Some(end_offset) {
                self.crc_at_mark = last_crc;
            }
            note(segment, self.config, batch);
            false
        });
        if noted.is_err() || segment.size() != size {
            return Ok(None);
        }
        match segment.read_batch(0, size) {
            Ok(Some(first)) => segment.set_first_timestamp(max_timestamp(&first.batch)),
            Ok(None) => {}
            Err(StorageError::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        self.last_crc = last_crc;
        Ok(Some(end_offset))
    }

    /// Reads a segment from its start, verifies every batch, rebuilds its indexes, and takes out damage.
    fn recover(&mut self, segment: Segment, expected: i64, next: Option<i64>) -> Result<(Segment, i64), StorageError> {
        segment.reset();
        let size = segment.file_size()?;
        if !self.opening.accept_loss {
            self.check_own(&segment, size)?;
        }
        self.recovery.segments_read += 1;
        self.recovery.bytes_read += u64::from(size);
        let known = self.opening.known;
        let rules = Rules {
            expected,
            floor: self.floor,
            limit: next.or_else(|| known.map(|known| known.end_offset)),
        };
        let mut epochs = std::mem::take(&mut self.epochs);
        let mut crc_at_mark = self.crc_at_mark;
        let survey = survey::survey(&segment, size, rules, |batch| {
            note(&segment, self.config, batch);
            if known.is_some_and(|known| known.end_offset == batch.last_offset() + 1) {
                crc_at_mark = survey::crc_of(batch);
            }
            if let Batch::V2(batch) = batch {
                epochs.assign(batch.header().partition_leader_epoch, batch.header().base_offset);
            }
        });
        self.epochs = epochs;
        self.crc_at_mark = crc_at_mark;
        let mut survey = survey?;
        if let (Some(tail), Some(next)) = (&survey.tail, next)
            && next <= self.floor
        {
            // The segments that follow are good, so this is no end of the log.
            survey.holes.push(Span {
                to_offset: next,
                ..tail.clone()
            });
            survey.tail = None;
        }
        if !survey.holes.is_empty() {
            let mended = self.take_out(&segment, size, &survey.holes)?;
            return self.recover(mended, expected, next);
        }
        if let Some(tail) = &survey.tail {
            self.cut_tail(&segment, size, tail, next)?;
        }
        self.last_crc = survey.last_crc;
        // The indexes are written when all markers were replayed and the aborted transactions are known.
        segment.set_aborted(vec![]);
        Ok((segment, survey.end_offset))
    }
}

fn note(segment: &Segment, config: &LogConfig, batch: &Batch) {
    segment.note(config, batch.last_offset(), max_timestamp(batch), batch.size() as u32);
}

/// The largest timestamp of a batch, or -1. Old formats have it only in each record; such segments are no longer
/// written, so -1 does no harm. A batch that compaction emptied has no record, so its header does not count.
pub(crate) fn max_timestamp(batch: &Batch) -> i64 {
    match batch {
        Batch::V2(batch) if batch.header().record_count > 0 => batch.header().max_timestamp,
        Batch::V2(_) | Batch::Legacy(_) => -1,
    }
}
