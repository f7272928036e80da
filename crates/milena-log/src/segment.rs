//! One segment: a file of batches, with its indexes.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use milena_invariant::invariant;
use milena_wire::records::{BATCH_OVERHEAD, Batch, BatchHeader, Batches, HEADER_SIZE};
use twox_hash::XxHash3_128;

use crate::{
    aborted,
    config::LogConfig,
    disk::{self, Disk, DiskFile},
    error::{Doing, StorageError},
    index::{OffsetIndex, TimeIndex},
    producers::AbortedTransaction,
    slice::FileSlice,
    sums::{self, Sums},
    survey,
};

/// Bytes per read when scanning for a batch between two index entries.
const SCAN_SIZE: usize = 8 << 10;

/// A segment with one writer and many readers.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base_offset: i64,
    disk: Arc<dyn Disk>,
    /// The path of the `.log` file; the other files differ in their extension.
    path: PathBuf,
    file: OnceLock<Arc<dyn DiskFile>>,
    /// Whether a part of a batch that could not be written may stand at the end of the file.
    torn: AtomicBool,
    state: RwLock<State>,
}

/// State that changes with every append.
#[derive(Debug, Clone, Default)]
struct State {
    size: u32,
    offsets: OffsetIndex,
    times: TimeIndex,
    unindexed_bytes: u32,
    /// The largest timestamp, and the last offset of the batch that has it.
    latest: Option<(i64, i64)>,
    /// The largest timestamp of the first batch: the segment's age counts from there.
    first_timestamp: Option<i64>,
    /// Entries of the transaction index; `None` until they are first read.
    aborted: Option<Vec<AbortedTransaction>>,
    /// Whether the file of that index lacks some, because it could not be written.
    aborted_behind: bool,
}

/// A batch found in a segment.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) position: u32,
    pub(crate) batch: Batch,
}

impl Segment {
    /// A segment without a file yet; the first append creates it.
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, base_offset: i64) -> Self {
        Self::at(disk, dir.join(file_name(base_offset, "log")), base_offset)
    }

    /// A segment whose file has a different name.
    pub(crate) fn at(disk: Arc<dyn Disk>, path: PathBuf, base_offset: i64) -> Self {
        Self {
            base_offset,
            disk,
            path,
            file: OnceLock::new(),
            torn: AtomicBool::new(false),
            state: RwLock::default(),
        }
    }

    /// A segment that will replace others: until then its file names end with `suffix`.
    pub(crate) fn unfinished(
        disk: Arc<dyn Disk>,
        dir: &Path,
        base_offset: i64,
        suffix: &str,
    ) -> Result<Self, StorageError> {
        let segment = Self::new(disk, dir, base_offset);
        let path = disk::with_suffix(&segment.path, suffix);
        let file = segment.disk.create(&path).doing("create", &path)?;
        segment.file.get_or_init(|| file);
        Ok(segment)
    }

    pub(crate) fn size(&self) -> u32 {
        self.state().size
    }

    /// The largest timestamp; `None` for a segment without records.
    pub(crate) fn largest_timestamp(&self) -> Option<i64> {
        self.state().latest.map(|(timestamp, _)| timestamp)
    }

    /// The largest timestamp, and the last offset of the batch that has it.
    pub(crate) fn latest(&self) -> Option<(i64, i64)> {
        self.state().latest
    }

    /// Whether a batch belongs into the next segment.
    pub(crate) fn should_roll(&self, config: &LogConfig, header: &BatchHeader, batch_size: usize, now_ms: i64) -> bool {
        let state = self.state();
        if state.size == 0 {
            return false;
        }
        let too_large = u64::from(state.size) + batch_size as u64 > u64::from(config.segment_bytes);
        let age = match state.first_timestamp {
            Some(first) if first >= 0 => header.max_timestamp.saturating_sub(first),
            _ => now_ms.saturating_sub(state.first_timestamp.unwrap_or(now_ms)),
        };
        let entries_max = config.segment_index_bytes as usize / TimeIndex::ENTRY_SIZE;
        let index_full = state.offsets.len() >= config.segment_index_bytes as usize / OffsetIndex::ENTRY_SIZE
            || state.times.len() + 1 >= entries_max;
        let age_max = config.segment_ms_max().saturating_sub(self.jitter(config));
        too_large || age > age_max || index_full || self.relative(header.last_offset()).is_none()
    }

    /// By how much this segment is closed earlier, so that the partitions of a topic are not closed all at once. It
    /// follows from the name of the file, which is as good as chance.
    fn jitter(&self, config: &LogConfig) -> i64 {
        let most = config.segment_jitter_ms.min(config.segment_ms);
        if most <= 0 {
            return 0;
        }
        let chance = XxHash3_128::oneshot(self.path.as_os_str().as_encoded_bytes()) as u64;
        (chance >> 1) as i64 % most
    }

    /// Writes a batch at the end: `header`, then the records of `batch`.
    pub(crate) fn append(&self, config: &LogConfig, header: &BatchHeader, batch: &[u8]) -> Result<(), StorageError> {
        self.mend()?;
        let file = self.file()?;
        let position = self.size();
        let records = batch.get(HEADER_SIZE..).unwrap_or_default();
        let written = file.write_at(&header.to_bytes(), records, u64::from(position));
        if let Err(error) = written.doing("write", &self.path) {
            self.torn.store(true, Ordering::Relaxed);
            // The first error is the one to report. If this fails too, the next append tries again.
            let _ = self.mend();
            return Err(error);
        }
        let last_offset = header.last_offset();
        self.note(config, last_offset, header.max_timestamp, batch.len() as u32);
        Ok(())
    }

    /// Cuts off the rest of a failed write. Recovery would otherwise discard all that follows, or take the rest
    /// behind a shorter batch for records.
    pub(crate) fn mend(&self) -> Result<(), StorageError> {
        if self.torn.load(Ordering::Relaxed) {
            self.truncate(self.size())?;
            self.sync()?;
            self.torn.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes whole batches that have been noted already.
    pub(crate) fn write_noted(&self, batches: &[u8], position: u32) -> Result<(), StorageError> {
        self.file()?
            .write_at(batches, &[], u64::from(position))
            .doing("write", &self.path)
    }

    /// Brings indexes and times up to date with a batch that is in the file now.
    pub(crate) fn note(&self, config: &LogConfig, last_offset: i64, max_timestamp: i64, size: u32) {
        let relative = self.relative(last_offset);
        let mut state = self.state_mut();
        if state.latest.is_none_or(|(latest, _)| max_timestamp > latest) {
            state.latest = Some((max_timestamp, last_offset));
        }
        if state.first_timestamp.is_none() {
            state.first_timestamp = Some(max_timestamp);
        }
        if state.unindexed_bytes > config.index_interval_bytes
            && let Some(relative) = relative
        {
            let position = state.size;
            state.offsets.push(relative, position);
            self.note_time(&mut state);
            state.unindexed_bytes = 0;
        }
        state.unindexed_bytes += size;
        state.size += size;
    }

    fn note_time(&self, state: &mut State) {
        let latest = state
            .latest
            .and_then(|(timestamp, offset)| Some((timestamp, self.relative(offset)?)));
        if let Some((timestamp, relative)) = latest {
            state.times.push(timestamp, relative);
        }
    }

    /// The first batch from `offset` on, as far as `end`; `None` if all batches there end before it.
    pub(crate) fn find(&self, offset: i64, end: u32) -> Result<Option<Found>, StorageError> {
        let start = match self.relative(offset) {
            Some(relative) => self.state().offsets.position(relative),
            // An offset below the segment: from its start.
            None if offset < self.base_offset => 0,
            None => return Ok(None),
        };
        let mut reached = start;
        let mut is_odd = false;
        let found = self.scan(start, end, |batch| {
            let (first, last) = (survey::first_offset(batch), batch.last_offset());
            is_odd = last < first;
            let is_found = last >= offset || is_odd;
            reached += if is_found { 0 } else { batch.size() as u32 };
            is_found
        })?;
        // A damaged header must not make the reader skip to the next batch or segment.
        match is_odd || (found.is_none() && reached < end) {
            true => Err(StorageError::damaged(
                &self.path,
                format!("there is no whole batch at byte {reached}"),
            )),
            false => Ok(found),
        }
    }

    /// The first batch between `start` and `end` that `wanted` accepts.
    pub(crate) fn scan(
        &self,
        start: u32,
        end: u32,
        wanted: impl FnMut(&Batch) -> bool,
    ) -> Result<Option<Found>, StorageError> {
        self.scan_by(SCAN_SIZE, start, end, wanted)
    }

    /// As [`Segment::scan`], reading `window` bytes at once.
    pub(crate) fn scan_by(
        &self,
        window: usize,
        start: u32,
        end: u32,
        mut wanted: impl FnMut(&Batch) -> bool,
    ) -> Result<Option<Found>, StorageError> {
        let mut position = start;
        while position < end {
            let bytes = self.read(position, window.min((end - position) as usize))?;
            let before = position;
            for batch in Batches::new(bytes) {
                let batch = batch.map_err(|error| StorageError::damaged(&self.path, error.to_string()))?;
                if wanted(&batch) {
                    return Ok(Some(Found { position, batch }));
                }
                position += batch.size() as u32;
            }
            if position == before {
                // A batch larger than the window.
                let Some(found) = self.read_batch(position, end)? else {
                    return Ok(None);
                };
                if wanted(&found.batch) {
                    return Ok(Some(found));
                }
                position += found.batch.size() as u32;
            }
        }
        Ok(None)
    }

    /// The whole batch at `position`; `None` if it does not end by `end`.
    pub(crate) fn read_batch(&self, position: u32, end: u32) -> Result<Option<Found>, StorageError> {
        let start = self.read(position, BATCH_OVERHEAD)?;
        let Some(length) = start
            .last_chunk()
            .copied()
            .map(i32::from_be_bytes)
            .filter(|_| start.len() == BATCH_OVERHEAD)
        else {
            return Ok(None);
        };
        let left = u64::from(end).saturating_sub(u64::from(position));
        let Some(size) = u64::try_from(length)
            .ok()
            .map(|length| length + BATCH_OVERHEAD as u64)
            .filter(|s| *s <= left)
        else {
            return Ok(None);
        };
        let bytes = self.read(position, size as usize)?;
        match Batches::new(bytes).next() {
            None => Ok(None),
            Some(Ok(batch)) => Ok(Some(Found { position, batch })),
            Some(Err(error)) => Err(StorageError::damaged(&self.path, error.to_string())),
        }
    }

    /// Batches from the one at `found` on, at most `len_max` bytes of them but at least that one, as far as `end`.
    pub(crate) fn slice(&self, found: &Found, len_max: usize, end: u32) -> Result<FileSlice, StorageError> {
        let available = (end - found.position) as usize;
        let first = found.batch.size();
        let len = if available <= len_max {
            available
        } else if len_max <= first {
            first
        } else {
            // Cut at a known batch boundary, so that no partial batch is sent.
            let limit = u64::from(found.position) + len_max as u64;
            let boundary = self.state().offsets.boundary(u32::try_from(limit).unwrap_or(u32::MAX));
            (boundary.saturating_sub(found.position) as usize).max(first)
        };
        Ok(FileSlice {
            file: self.file()?,
            path: self.path.clone(),
            first_batch: first,
            position: u64::from(found.position),
            len,
        })
    }

    /// A position at or before the first batch that may hold a record as late as `timestamp`.
    pub(crate) fn position_of_time(&self, timestamp: i64) -> u32 {
        let state = self.state();
        state.offsets.position(state.times.relative_offset(timestamp))
    }

    /// The position after which batches may be unindexed: loading scans from here.
    pub(crate) fn last_indexed_position(&self) -> u32 {
        self.state().offsets.last_position()
    }

    pub(crate) fn read(&self, position: u32, len: usize) -> Result<Bytes, StorageError> {
        let mut bytes = vec![0; len];
        let read = self.read_into(&mut bytes, position)?;
        bytes.truncate(read);
        Ok(Bytes::from(bytes))
    }

    /// Fills the buffer; returns the number of bytes read.
    pub(crate) fn read_into(&self, buffer: &mut [u8], position: u32) -> Result<usize, StorageError> {
        self.file()?
            .read_at(buffer, u64::from(position))
            .doing("read", &self.path)
    }

    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        match self.file.get() {
            Some(file) => file.sync().doing("sync", &self.path),
            None => Ok(()),
        }
    }

    /// Writes the index files, so that the next start need not rebuild them. They are synced, because a start
    /// after a power cut trusts the indexes of synced segments.
    pub(crate) fn write_indexes(&self) -> Result<(), StorageError> {
        self.complete_aborted()?;
        self.write_indexes_as("")
    }

    /// As [`Segment::write_indexes`], with `suffix` at the end of the names.
    pub(crate) fn write_indexes_as(&self, suffix: &str) -> Result<(), StorageError> {
        self.load_aborted()?;
        let mut state = self.state_mut();
        self.note_time(&mut state);
        invariant!(
            state.offsets.last_position() <= state.size,
            "index_points_into_its_segment"
        );
        let (offsets, times) = (state.offsets.encode(), state.times.encode());
        let aborted = aborted::encode_all(state.aborted.as_deref().unwrap_or_default());
        let sums = Sums::of(&offsets, &times, &aborted, state.size);
        drop(state);
        for (ending, content) in [("index", offsets), ("timeindex", times)] {
            let path = disk::with_suffix(&self.path_of(ending), suffix);
            let file = self.disk.create(&path).doing("create", &path)?;
            file.write_at(&content, &[], 0).doing("write", &path)?;
            file.sync().doing("sync", &path)?;
        }
        // Not synced: without it the segment is read again, and no more.
        let path = disk::with_suffix(&self.path_of(sums::ENDING), suffix);
        let file = self.disk.create(&path).doing("create", &path)?;
        file.write_at(sums.encode().as_bytes(), &[], 0).doing("write", &path)
    }

    /// Records a transaction that a marker in this segment aborted; earlier ones are loaded already. Readers
    /// see it even if writing the file fails, because aborted records must stay hidden. The file is completed
    /// at the latest with the other indexes; after a crash before that, recovery reads the marker.
    pub(crate) fn add_aborted(&self, aborted: AbortedTransaction) {
        let is_behind = {
            let mut state = self.state_mut();
            state.aborted.get_or_insert_default().push(aborted);
            state.aborted_behind
        };
        if is_behind || aborted::append(&*self.disk, &self.path_of("txnindex"), &aborted).is_err() {
            self.state_mut().aborted_behind = true;
        }
    }

    /// Writes the entries that the transaction index file lacks.
    pub(crate) fn complete_aborted(&self) -> Result<(), StorageError> {
        let all = {
            let state = self.state();
            state.aborted.clone().filter(|_| state.aborted_behind)
        };
        if let Some(all) = all {
            aborted::replace(&*self.disk, &self.path_of("txnindex"), &all)?;
            self.state_mut().aborted_behind = false;
        }
        Ok(())
    }

    /// The transactions aborted by markers in this segment that `wanted` accepts.
    pub(crate) fn aborted(
        &self,
        wanted: impl Fn(&AbortedTransaction) -> bool,
    ) -> Result<Vec<AbortedTransaction>, StorageError> {
        self.load_aborted()?;
        let state = self.state();
        Ok(state.aborted.iter().flatten().copied().filter(wanted).collect())
    }

    /// Reads which transactions were aborted, if that is not known yet.
    pub(crate) fn load_aborted(&self) -> Result<(), StorageError> {
        if self.state().aborted.is_none() {
            let read = aborted::read(&*self.disk, &self.path_of("txnindex"))?;
            // A concurrent reader may have loaded as much or more.
            self.state_mut().aborted.get_or_insert(read);
        }
        Ok(())
    }

    /// Loads the entries that readers may still need from the files, which are about to be removed.
    pub(crate) fn prepare_removal(&self) -> Result<(), StorageError> {
        self.load_aborted()?;
        self.file().map(drop)
    }

    /// Sets the transaction index of a segment that is being written.
    pub(crate) fn set_aborted(&self, aborted: Vec<AbortedTransaction>) {
        self.state_mut().aborted = Some(aborted);
    }

    /// Replaces the aborted transactions of the segment.
    pub(crate) fn replace_aborted(&self, all: Vec<AbortedTransaction>) -> Result<(), StorageError> {
        let path = self.path_of("txnindex");
        if !all.is_empty() || self.disk.exists(&path).doing("look for", &path)? {
            aborted::replace(&*self.disk, &path, &all)?;
        }
        let mut state = self.state_mut();
        (state.aborted, state.aborted_behind) = (Some(all), false);
        Ok(())
    }

    /// Bytes that the two indexes take as files.
    pub(crate) fn index_sizes(&self) -> (usize, usize) {
        let state = self.state();
        (
            state.offsets.len() * OffsetIndex::ENTRY_SIZE,
            state.times.len() * TimeIndex::ENTRY_SIZE,
        )
    }

    /// The largest timestamp of the first batch.
    pub(crate) fn first_timestamp(&self) -> Option<i64> {
        self.state().first_timestamp
    }

    /// Truncates the file. The in-memory state does not change.
    pub(crate) fn truncate(&self, size: u32) -> Result<(), StorageError> {
        self.file()?.truncate(u64::from(size)).doing("truncate", &self.path)
    }

    /// Clears the in-memory state, before batches are noted one by one.
    pub(crate) fn reset(&self) {
        *self.state_mut() = State::default();
    }

    /// Loads the indexes from their files if the checksums match; returns whether they do.
    pub(crate) fn load_indexes(&self, size: u32) -> Result<bool, StorageError> {
        let Some(sums) = Sums::read(&*self.disk, &self.path_of(sums::ENDING)) else {
            return Ok(false);
        };
        let (index, timeindex) = (self.read_beside("index")?, self.read_beside("timeindex")?);
        let txnindex = self.read_beside("txnindex")?;
        if Sums::of(&index, &timeindex, &txnindex, size) != sums {
            return Ok(false);
        }
        let offsets = OffsetIndex::decode(&index, u64::from(size));
        let times = TimeIndex::decode(&timeindex);
        let (Some(offsets), Some(times), Some(aborted)) = (offsets, times, aborted::decode_all(&txnindex)) else {
            return Ok(false);
        };
        let latest = times
            .last()
            .map(|(timestamp, relative)| (timestamp, self.base_offset + i64::from(relative)));
        *self.state_mut() = State {
            size: offsets.last_position(),
            offsets,
            times,
            latest,
            aborted: Some(aborted),
            ..State::default()
        };
        Ok(true)
    }

    /// The content of another file of the segment; empty if it does not exist.
    fn read_beside(&self, ending: &str) -> Result<Vec<u8>, StorageError> {
        let path = self.path_of(ending);
        match self.disk.exists(&path).doing("look for", &path)? {
            true => disk::read_file(&*self.disk, &path).doing("read", &path),
            false => Ok(vec![]),
        }
    }

    /// Appends batches without records, for offsets that are not assigned again.
    pub(crate) fn fill(&self, config: &LogConfig, fillers: &[BatchHeader]) -> Result<(), StorageError> {
        for filler in fillers {
            self.append(config, filler, &filler.to_bytes())?;
        }
        self.sync()
    }

    /// Makes the file, so that the base offset is remembered although there is no record.
    pub(crate) fn create(&self) -> Result<(), StorageError> {
        self.file().map(drop)
    }

    /// Opens the file, creating it if there is none.
    fn file(&self) -> Result<Arc<dyn DiskFile>, StorageError> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file));
        }
        let file = if self.disk.exists(&self.path).doing("look for", &self.path)? {
            self.disk.open(&self.path).doing("open", &self.path)?
        } else {
            self.disk.create(&self.path).doing("create", &self.path)?
        };
        Ok(Arc::clone(self.file.get_or_init(|| file)))
    }

    pub(crate) fn file_size(&self) -> Result<u32, StorageError> {
        let size = self.file()?.size().doing("measure", &self.path)?;
        u32::try_from(size).map_err(|_| StorageError::damaged(&self.path, "it is larger than 4 GiB"))
    }

    pub(crate) fn set_first_timestamp(&self, timestamp: i64) {
        self.state_mut().first_timestamp = Some(timestamp);
    }

    /// The paths of all files that belong to the segment, whether they exist or not.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        ["log", "index", "timeindex", "txnindex", sums::ENDING, "snapshot"]
            .map(|ending| self.path_of(ending))
            .into()
    }

    pub(crate) fn path_of(&self, ending: &str) -> PathBuf {
        self.path.with_extension(ending)
    }

    /// The distance from the base offset, if it fits the indexes.
    fn relative(&self, offset: i64) -> Option<u32> {
        let distance = offset.checked_sub(self.base_offset)?;
        i32::try_from(distance)
            .ok()
            .and_then(|distance| u32::try_from(distance).ok())
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kafka's name of a file of a segment.
pub(crate) fn file_name(base_offset: i64, ending: &str) -> String {
    format!("{base_offset:020}.{ending}")
}

/// The base offset in a file name of this ending.
pub(crate) fn base_offset_of(name: &str, ending: &str) -> Option<i64> {
    let digits = name.strip_suffix(ending)?.strip_suffix('.')?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}
