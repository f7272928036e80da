//! Opening a log: trusting what was closed or synced, reading all else, and cutting it where it is damaged.

use std::{path::Path, sync::Arc};

use milena_wire::{
    pool::BufferPool,
    records::{Batch, ControlRecord, RecordDecoder, RecordSet},
};

use crate::{
    checkpoint, cleaner,
    config::LogConfig,
    disk::Disk,
    epochs::LeaderEpochs,
    error::{Doing, StorageError},
    log::{Opening, Writer},
    producers::{AbortedTransaction, Producers},
    segment::{Segment, base_offset_of, file_name},
    snapshot,
};

/// The file of leader epochs in a partition's folder.
pub(crate) const EPOCHS: &str = "leader-epoch-checkpoint";

/// How much is read at once when all of a segment is.
const WINDOW: usize = 1 << 20;

pub(crate) fn load(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    config: &LogConfig,
    opening: Opening,
) -> Result<Writer, StorageError> {
    let mut loader = Loader {
        disk,
        dir,
        config,
        opening,
        epochs: LeaderEpochs::default(),
    };
    cleaner::complete_swaps(disk, dir)?;
    let names = loader.names()?;
    loader.remove_leftovers(&names)?;
    if names.iter().any(|name| name == EPOCHS) {
        loader.epochs = LeaderEpochs::from_checkpoint(checkpoint::read_epochs(&**disk, &dir.join(EPOCHS))?);
    }
    let (mut segments, mut end_offset) = loader.segments(&names)?;
    if end_offset < opening.log_start_offset {
        // A crash took records after the point up to which they were deleted. Their offsets are not given out again.
        for segment in segments.drain(..) {
            remove_segment(&**disk, &segment)?;
        }
        end_offset = opening.log_start_offset;
    }
    let first_offset = segments.first().map_or(end_offset, |first| first.base_offset);
    let log_start_offset = opening.log_start_offset.max(first_offset);
    loader.epochs.truncate_end(end_offset);
    let producers = loader.producers(&names, &segments, end_offset)?;
    let trusted = if opening.clean {
        end_offset
    } else {
        opening.recovery_point.min(end_offset)
    };
    let settled_offset = match opening.clean {
        true => producers.first_open_offset().unwrap_or(end_offset),
        // Which transactions below ended with a marker that is not synced is not known, until all is.
        false => log_start_offset,
    };
    Ok(Writer {
        segments,
        producers,
        epochs: Arc::new(loader.epochs),
        log_start_offset,
        first_dirty_offset: log_start_offset,
        end_offset,
        // What was read back after a crash is there, but only a sync makes sure that it stays.
        synced_offset: trusted,
        settled_offset,
        // A partition that was never written to has no folder, and so no names.
        new_names: !opening.clean && !names.is_empty(),
    })
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
}

impl Loader<'_> {
    fn names(&self) -> Result<Vec<String>, StorageError> {
        if !self.disk.exists(self.dir).doing("look for", self.dir)? {
            return Ok(vec![]);
        }
        let entries = self.disk.list(self.dir).doing("list", self.dir)?;
        let mut names: Vec<String> = entries.into_iter().map(|entry| entry.name).collect();
        names.sort();
        Ok(names)
    }

    /// Removes what a crash in the middle of something has left behind.
    fn remove_leftovers(&self, names: &[String]) -> Result<(), StorageError> {
        let has_log = |base_offset| names.contains(&file_name(base_offset, "log"));
        for name in names {
            let unfinished = [".tmp", ".cleaned", ".deleted"]
                .iter()
                .any(|ending| name.ends_with(ending));
            let orphan = ["index", "timeindex", "txnindex"]
                .iter()
                .find_map(|ending| base_offset_of(name, ending))
                .is_some_and(|base_offset| !has_log(base_offset));
            if unfinished || orphan {
                remove_if_there(&**self.disk, &self.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// The segments that hold good, and the offset after the last record.
    fn segments(&mut self, names: &[String]) -> Result<(Vec<Arc<Segment>>, i64), StorageError> {
        let offsets: Vec<i64> = names.iter().filter_map(|name| base_offset_of(name, "log")).collect();
        let mut segments: Vec<Arc<Segment>> = vec![];
        let mut end_offset = offsets.first().copied().unwrap_or(self.opening.log_start_offset);
        let (mut damaged, mut removed) = (false, false);
        for (place, base_offset) in offsets.iter().copied().enumerate() {
            let segment = Arc::new(Segment::new(Arc::clone(self.disk), self.dir, base_offset));
            // Where records were lost, nothing that follows may stay. A gap is such a loss unless it was synced: then
            // compaction made it.
            let gap = base_offset > end_offset && !self.opening.clean && base_offset > self.opening.recovery_point;
            damaged |= gap && place > 0;
            if damaged || base_offset < end_offset {
                remove_segment(&**self.disk, &segment)?;
                removed = true;
                continue;
            }
            let next = offsets.get(place + 1).copied();
            let trusted = self.opening.clean || next.is_some_and(|next| next <= self.opening.recovery_point);
            let end = match trusted {
                true => self.trust(&segment)?,
                false => None,
            };
            end_offset = match end {
                Some(end) => end,
                None => {
                    let (end, whole) = self.recover(&segment, end_offset.max(base_offset))?;
                    damaged = !whole;
                    end
                }
            };
            segments.push(segment);
        }
        if damaged || removed {
            // A second crash must not bring back what was cut: after new records in its place it could look right.
            self.disk.sync_dir(self.dir).doing("sync", self.dir)?;
        }
        Ok((segments, end_offset))
    }

    /// Takes a segment over by its indexes, looking only at what follows their last entry; `None` if they do not fit.
    fn trust(&self, segment: &Segment) -> Result<Option<i64>, StorageError> {
        let size = segment.file_size()?;
        if !segment.load_indexes(size)? {
            return Ok(None);
        }
        let mut end_offset = segment.base_offset;
        let position = segment.last_indexed_position();
        let noted = segment.scan(position, size, |batch| {
            end_offset = batch.last_offset() + 1;
            note(segment, self.config, batch);
            false
        });
        if noted.is_err() || segment.size() != size {
            return Ok(None);
        }
        if let Some(first) = segment.read_batch(0, size)? {
            segment.set_first_timestamp(max_timestamp(&first.batch));
        }
        Ok(Some(end_offset))
    }

    /// Reads a segment from its start, checks every batch, builds its indexes anew, and cuts it at the first that is
    /// damaged or out of order. Gives the offset after the last good record, and whether all was good.
    fn recover(&mut self, segment: &Segment, expected: i64) -> Result<(i64, bool), StorageError> {
        segment.reset();
        let size = segment.file_size()?;
        let mut end_offset = expected;
        let mut epochs = std::mem::take(&mut self.epochs);
        let stopped = segment.scan_by(WINDOW, 0, size, |batch| {
            let good = batch.verify().is_ok() && batch.last_offset() >= end_offset && first_offset(batch) >= end_offset;
            if good {
                end_offset = batch.last_offset() + 1;
                note(segment, self.config, batch);
                if let Batch::V2(batch) = batch {
                    epochs.assign(batch.header().partition_leader_epoch, batch.header().base_offset);
                }
            }
            !good
        });
        self.epochs = epochs;
        // A header that makes no sense ends the walk as a bad checksum does; an error of the disk is an error.
        let whole = match stopped {
            Ok(None) => segment.size() == size,
            Ok(Some(_)) | Err(StorageError::Damaged { .. }) => false,
            Err(error) => return Err(error),
        };
        if !whole {
            segment.truncate(segment.size())?;
            segment.sync()?;
        }
        // A power cut may have taken a marker and left what the index says of it.
        segment.truncate_aborted(end_offset)?;
        segment.write_indexes()?;
        Ok((end_offset, whole))
    }

    /// What is known of producers: the newest snapshot that can be read, and all batches after it.
    fn producers(
        &self,
        names: &[String],
        segments: &[Arc<Segment>],
        end_offset: i64,
    ) -> Result<Producers, StorageError> {
        let mut from = segments.first().map_or(end_offset, |segment| segment.base_offset);
        let (mut producers, mut removed) = (Producers::default(), false);
        let snapshots = names
            .iter()
            .filter_map(|name| Some((base_offset_of(name, "snapshot")?, name)));
        for (offset, name) in snapshots.collect::<Vec<_>>().into_iter().rev() {
            let path = self.dir.join(name);
            if offset <= end_offset
                && let Ok(read) = snapshot::read(&**self.disk, &path)
            {
                (producers, from) = (read, offset);
                break;
            }
            // Of a future that a crash has taken, or unreadable.
            remove_if_there(&**self.disk, &path)?;
            removed = true;
        }
        if removed {
            // Else another crash could bring it back when the log has grown to its offset in another way.
            self.disk.sync_dir(self.dir).doing("sync", self.dir)?;
        }
        let after = segments.partition_point(|segment| segment.base_offset <= from);
        for segment in segments.iter().skip(after.saturating_sub(1)) {
            self.replay(&mut producers, segment, from)?;
        }
        Ok(producers)
    }

    fn replay(&self, producers: &mut Producers, segment: &Segment, from: i64) -> Result<(), StorageError> {
        let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 20);
        let mut set = RecordSet::default();
        let mut aborts = vec![];
        let start = segment
            .find(from, segment.size())?
            .map_or_else(|| segment.size(), |found| found.position);
        segment.scan_by(WINDOW, start, segment.size(), |batch| {
            let Batch::V2(batch) = batch else { return false };
            let header = batch.header();
            if !header.attributes.is_control() {
                producers.apply(header);
            } else if batch.decode_into(&mut decoder, &mut set).is_ok()
                && let Some(Ok(marker)) = set.get(0).map(|record| ControlRecord::parse(&record))
            {
                aborts.extend(producers.apply_marker(header, marker));
            }
            false
        })?;
        self.complete_aborts(segment, &aborts)
    }

    /// Adds the aborted transactions that the index of a segment lacks because of a crash.
    fn complete_aborts(&self, segment: &Segment, aborts: &[AbortedTransaction]) -> Result<(), StorageError> {
        for aborted in aborts {
            // By its marker, because compaction may have removed the first records of the transaction.
            let known = segment.aborted(|known| known.last_offset == aborted.last_offset)?;
            if known.is_empty() {
                segment.add_aborted(*aborted);
            }
        }
        segment.complete_aborted()
    }
}

fn note(segment: &Segment, config: &LogConfig, batch: &Batch) {
    segment.note(config, batch.last_offset(), max_timestamp(batch), batch.size() as u32);
}

/// The latest time of a record, or -1. The old formats tell it only record by record; such segments are not written any
/// more, so -1 does no harm. What compaction has emptied has no record, whatever its header remembers.
pub(crate) fn max_timestamp(batch: &Batch) -> i64 {
    match batch {
        Batch::V2(batch) if batch.header().record_count > 0 => batch.header().max_timestamp,
        Batch::V2(_) | Batch::Legacy(_) => -1,
    }
}

fn first_offset(batch: &Batch) -> i64 {
    match batch {
        Batch::V2(batch) => batch.header().base_offset,
        Batch::Legacy(message) => message.offset(),
    }
}
