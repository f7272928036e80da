//! The log of one partition: one writer, many readers.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
};

use bytes::Bytes;
use milena_invariant::invariant;
use milena_wire::{
    Uuid,
    records::{BATCH_OVERHEAD, Batch, BatchHeader, Batches, ControlRecord},
};

use crate::{
    checkpoint, cleaner,
    config::{Durability, LogConfig},
    damage::Recovery,
    disk::{Disk, OwnDisk},
    error::{AppendError, DeleteRecordsError, Doing, StorageError},
    ledger::Ledger,
    load::{self, Opening},
    producers::{ProducerError, Producers},
    segment::{Segment, file_name},
    snapshot,
    validate::{self, InvalidBatch, Validated},
    view::LogView,
    writer::Writer,
};

/// A partition's log. All methods take `&self`; appends are serialized by a lock, reads take none.
#[derive(Debug)]
pub struct Log {
    /// All names go this way.
    own: Arc<OwnDisk>,
    /// The same as a trait object.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    /// Id of its topic, if the folder is to record it.
    topic_id: Option<Uuid>,
    config: RwLock<Arc<LogConfig>>,
    /// Held during compaction, so that only one runs at a time.
    pub(crate) compaction: Mutex<()>,
    /// Held while segments are removed or replaced; taken before the writer's lock.
    layout: Mutex<()>,
    writer: Mutex<Writer>,
    /// Replaced after every change.
    view: RwLock<Arc<LogView>>,
    /// Records the state of the log before readers see it.
    ledger: OnceLock<Arc<dyn Ledger>>,
    /// The damage that opening found.
    recovery: Recovery,
    /// Why the log is offline; then nothing is read from it or written to it.
    offline: Option<Arc<str>>,
}

/// A batch that is in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    pub base_offset: i64,
    pub last_offset: i64,
    /// The broker's time, if that is the topic's choice; else -1.
    pub log_append_time_ms: i64,
    pub log_start_offset: i64,
    /// Whether it was there before, from an earlier try.
    pub duplicate: bool,
}

/// The end of a producer's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndMarker {
    /// A commit or an abort.
    pub marker: ControlRecord,
    pub producer_id: i64,
    pub producer_epoch: i16,
    /// Whether the epoch is above that of the data, as in transaction version 2. A marker that arrives late then does
    /// not end the next transaction.
    pub has_new_epoch: bool,
}

impl Log {
    /// Opens the log in `dir` and repairs the results of a crash; [`Log::recovery`] lists them. A folder that
    /// does not exist is an empty log; the first append creates it.
    ///
    /// Fails if synced records are missing, unless the opening accepts that.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, config: LogConfig, opening: Opening) -> Result<Self, StorageError> {
        let own = Arc::new(OwnDisk::new(disk));
        let shared: Arc<dyn Disk> = Arc::<OwnDisk>::clone(&own);
        let (writer, recovery) = load::load(&shared, dir, &config, opening)?;
        Ok(Self::new(own, dir, config, writer, recovery))
    }

    /// A log that is not opened because of `error`: every operation fails, and its files are not touched.
    pub fn offline(disk: Arc<dyn Disk>, dir: &Path, config: LogConfig, error: &StorageError) -> Self {
        let own = Arc::new(OwnDisk::new(disk));
        let mut log = Self::new(own, dir, config, Writer::default(), Recovery::default());
        let reason: Arc<str> = error.to_string().into();
        let mut view = LogView::clone(&log.view());
        view.offline = Some((dir.to_owned(), Arc::clone(&reason)));
        log.offline = Some(reason);
        log.view = RwLock::new(Arc::new(view));
        log
    }

    fn new(own: Arc<OwnDisk>, dir: &Path, config: LogConfig, mut writer: Writer, recovery: Recovery) -> Self {
        let view = Arc::new(writer.view(config.durability));
        Self {
            disk: Arc::<OwnDisk>::clone(&own),
            own,
            dir: dir.to_owned(),
            topic_id: None,
            config: RwLock::new(Arc::new(config)),
            compaction: Mutex::default(),
            layout: Mutex::default(),
            writer: Mutex::new(writer),
            view: RwLock::new(view),
            ledger: OnceLock::new(),
            recovery,
            offline: None,
        }
    }

    /// The damage found while opening the log, and how it was repaired.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Why the log is offline, if it is.
    pub fn offline_reason(&self) -> Option<&str> {
        self.offline.as_deref()
    }

    /// Fails if the log is offline.
    pub fn check_online(&self) -> Result<(), StorageError> {
        match &self.offline {
            None => Ok(()),
            Some(reason) => Err(StorageError::offline(&self.dir, reason)),
        }
    }

    /// Notes the state of the log in `ledger`, now and before each change becomes visible.
    pub fn keep_ledger(&self, ledger: Arc<dyn Ledger>) {
        let writer = self.writer();
        if self.offline.is_none() && self.ledger.set(Arc::clone(&ledger)).is_ok() {
            ledger.note(&writer.mark(self.view().high_watermark));
        }
    }

    /// Sets the topic id. It is also written to the folder when that is created; Kafka requires it there.
    #[must_use]
    pub fn of_topic(self, id: Uuid) -> Self {
        Self {
            topic_id: Some(id),
            ..self
        }
    }

    /// The log as it is now.
    pub fn view(&self) -> Arc<LogView> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn config(&self) -> Arc<LogConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn set_config(&self, config: LogConfig) {
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Appends the one batch that a client sent for this partition. The caller has checked that its
    /// transaction, if it has one, is open.
    pub fn append(&self, records: &Bytes, leader_epoch: i32, now_ms: i64) -> Result<Appended, AppendError> {
        let config = self.config();
        // Checksums are the costly part, so they are done before the lock.
        let Validated { batch, mut header } = validate::validate(records, &config, now_ms)?;
        let mut writer = self.writer();
        if let Some(duplicate) = writer.producers.check(&header)? {
            return Ok(writer.duplicate(&duplicate, &config));
        }
        writer.producers.make_room(&header, config.producers_max, now_ms)?;
        header.base_offset = writer.end_offset;
        header.partition_leader_epoch = leader_epoch;
        self.write(&mut writer, &config, &header, batch.bytes(), now_ms)?;
        writer.producers.apply(&header);
        self.publish(&mut writer, config.durability);
        Ok(writer.appended(&header))
    }

    /// Appends a batch of the broker itself. The limits for clients do not apply, and it has no sequence; but a
    /// fenced producer stays fenced.
    pub fn append_own(&self, records: &Bytes, leader_epoch: i32, now_ms: i64) -> Result<Appended, AppendError> {
        let config = self.config();
        let Some(Ok(Batch::V2(batch))) = Batches::new(records.clone()).next() else {
            return Err(InvalidBatch::NotOneBatch.into());
        };
        let mut writer = self.writer();
        let mut header = *batch.header();
        writer
            .producers
            .check_epoch(header.producer_id, header.producer_epoch)?;
        header.base_offset = writer.end_offset;
        header.partition_leader_epoch = leader_epoch;
        self.write(&mut writer, &config, &header, batch.bytes(), now_ms)?;
        writer.producers.apply(&header);
        self.publish(&mut writer, config.durability);
        Ok(writer.appended(&header))
    }

    /// Appends the marker that ends a transaction, on behalf of its coordinator.
    pub fn append_marker(&self, end: EndMarker, leader_epoch: i32, now_ms: i64) -> Result<Appended, AppendError> {
        let marker = end.marker;
        let config = self.config();
        let encoded = marker.end_transaction_batch(now_ms, end.producer_id, end.producer_epoch);
        let bytes = encoded.ok().flatten().unwrap_or_default();
        let Some(Ok(Batch::V2(batch))) = Batches::new(bytes).next() else {
            return Err(InvalidBatch::Malformed("only a commit or an abort ends a transaction").into());
        };
        let mut writer = self.writer();
        let mut header = *batch.header();
        writer.producers.check_marker(&header, marker, end.has_new_epoch)?;
        if let Some(segment) = writer.segments.last() {
            segment.load_aborted()?;
        }
        header.base_offset = writer.end_offset;
        header.partition_leader_epoch = leader_epoch;
        self.write(&mut writer, &config, &header, batch.bytes(), now_ms)?;
        let aborted = writer.producers.apply_marker(&header, marker);
        if let (Some(aborted), Some(segment)) = (aborted, writer.segments.last()) {
            segment.add_aborted(aborted);
            writer.new_names = true;
        }
        self.publish(&mut writer, config.durability);
        Ok(writer.appended(&header))
    }

    fn write(
        &self,
        writer: &mut Writer,
        config: &LogConfig,
        header: &BatchHeader,
        batch: &[u8],
        now_ms: i64,
    ) -> Result<(), StorageError> {
        self.check_online()?;
        self.check_appendable(writer, header, batch)?;
        self.own.check().doing("write", &self.dir)?;
        let mut segment = self.active(writer)?;
        if segment.should_roll(config, header, batch.len(), now_ms) {
            segment = self.roll(writer)?;
        }
        // First, because after the batch is in the log the append must not fail.
        self.note_epoch(writer, header)?;
        segment.append(config, header, batch)?;
        writer.end_offset = header.last_offset() + 1;
        writer.last_crc = Some(header.crc);
        Ok(())
    }

    /// Refuses a batch that recovery would not accept, before any of it is written.
    fn check_appendable(&self, writer: &Writer, header: &BatchHeader, batch: &[u8]) -> Result<(), StorageError> {
        let violated = |invariant| Err(StorageError::violated(&self.dir, invariant));
        if !invariant!(header.base_offset == writer.end_offset, "batch_begins_at_the_log_end") {
            return violated("batch_begins_at_the_log_end");
        }
        if !invariant!(header.last_offset() >= header.base_offset, "batch_has_an_offset") {
            return violated("batch_has_an_offset");
        }
        let size = usize::try_from(header.length).map(|length| length + BATCH_OVERHEAD);
        if !invariant!(size == Ok(batch.len()), "batch_has_the_length_in_its_header") {
            return violated("batch_has_the_length_in_its_header");
        }
        Ok(())
    }

    /// Records the start of a leader epoch, if the batch begins one.
    fn note_epoch(&self, writer: &mut Writer, header: &BatchHeader) -> Result<(), StorageError> {
        if !writer.epochs.is_news(header.partition_leader_epoch) {
            return Ok(());
        }
        Arc::make_mut(&mut writer.epochs).assign(header.partition_leader_epoch, header.base_offset);
        let written = self.write_epochs(writer);
        if written.is_err() {
            Arc::make_mut(&mut writer.epochs).truncate_end(header.base_offset);
        }
        written
    }

    /// The segment to write to. The folder is made with the first.
    fn active(&self, writer: &mut Writer) -> Result<Arc<Segment>, StorageError> {
        if let Some(segment) = writer.segments.last().filter(|segment| segment.size() > 0) {
            return Ok(Arc::clone(segment));
        }
        self.disk.create_dir(&self.dir).doing("create", &self.dir)?;
        if let Some(id) = self.topic_id {
            checkpoint::add_topic_id(&*self.disk, &self.dir, id)?;
        }
        writer.new_names = true;
        match writer.segments.last() {
            Some(segment) => Ok(Arc::clone(segment)),
            None => Ok(self.start_segment(writer)),
        }
    }

    fn start_segment(&self, writer: &mut Writer) -> Arc<Segment> {
        let last = writer.segments.last();
        invariant!(
            last.is_none_or(|last| last.base_offset < writer.end_offset),
            "segments_have_ascending_base_offsets"
        );
        writer.last_crc = None;
        let segment = Arc::new(Segment::new(Arc::clone(&self.disk), &self.dir, writer.end_offset));
        writer.segments.push(Arc::clone(&segment));
        writer.new_names = true;
        segment
    }

    /// Closes the segment that is written to and starts the next.
    fn roll(&self, writer: &mut Writer) -> Result<Arc<Segment>, StorageError> {
        if let Some(segment) = writer.segments.last() {
            segment.mend()?;
            segment.write_indexes()?;
        }
        self.write_snapshot(writer)?;
        Ok(self.start_segment(writer))
    }

    /// Makes everything written so far survive a power cut; returns the offset up to which it does.
    ///
    /// Appends continue meanwhile, so callers that wait for the same call share one sync.
    pub fn sync(&self) -> Result<i64, StorageError> {
        self.check_online()?;
        let (segments, end_offset, settled_offset, new_names) = {
            let mut writer = self.writer();
            let dirty = writer.segments_from(writer.synced_offset);
            let end_offset = writer.end_offset;
            let settled = writer.producers.first_open_offset().unwrap_or(end_offset);
            (dirty, end_offset, settled, std::mem::take(&mut writer.new_names))
        };
        for segment in &segments {
            segment.sync()?;
        }
        if new_names {
            self.disk.sync_dir(&self.dir).doing("sync", &self.dir)?;
        }
        let mut writer = self.writer();
        writer.synced_offset = writer.synced_offset.max(end_offset);
        invariant!(
            writer.synced_offset <= writer.end_offset,
            "synced_offset_is_at_most_the_log_end"
        );
        writer.settled_offset = writer.settled_offset.max(settled_offset);
        self.publish(&mut writer, self.config().durability);
        Ok(writer.synced_offset)
    }

    /// Whether there are records that a power cut could take.
    pub fn is_dirty(&self) -> bool {
        let writer = self.writer();
        writer.synced_offset < writer.end_offset
    }

    /// Advances the log start offset to `offset`. Earlier records are no longer readable; whole segments of
    /// them are removed later.
    pub fn delete_records(&self, offset: i64) -> Result<i64, DeleteRecordsError> {
        self.check_online()?;
        let _layout = self.layout();
        let mut writer = self.writer();
        let high_watermark = self.view().high_watermark;
        let offset = if offset == -1 { high_watermark } else { offset };
        if !(0..=high_watermark).contains(&offset) {
            return Err(DeleteRecordsError::OutOfRange { offset, high_watermark });
        }
        if offset > writer.log_start_offset {
            writer.log_start_offset = offset;
            self.after_start_moved(&mut writer)?;
        }
        Ok(writer.log_start_offset)
    }

    /// Removes the segments that exceed the topic's retention; returns their number.
    pub fn apply_retention(&self, now_ms: i64) -> Result<usize, StorageError> {
        self.check_online()?;
        let config = self.config();
        let _layout = self.layout();
        let mut writer = self.writer();
        let high_watermark = self.view().high_watermark;
        let mut total: u64 = writer.segments.iter().map(|segment| u64::from(segment.size())).sum();
        let mut expired = 0;
        for (place, segment) in writer.segments.iter().enumerate() {
            let next = writer
                .segments
                .get(place + 1)
                .map_or(writer.end_offset, |next| next.base_offset);
            if segment.size() == 0 || next > high_watermark {
                break;
            }
            let size = u64::from(segment.size());
            let age = segment.largest_timestamp().map(|latest| now_ms.saturating_sub(latest));
            let too_old = config.retention_ms >= 0 && age.is_some_and(|age| age > config.retention_ms);
            let too_much = u64::try_from(config.retention_bytes).is_ok_and(|limit| total - size >= limit);
            if !(config.delete && (too_old || too_much)) && next > writer.log_start_offset {
                break;
            }
            total -= size;
            expired = place + 1;
        }
        if expired > 0 {
            if expired == writer.segments.len() {
                // All segments go. The name of an empty segment then preserves the next offset, so
                // it must exist before the others are removed.
                self.roll(&mut writer)?.create()?;
                self.disk.sync_dir(&self.dir).doing("sync", &self.dir)?;
            }
            let start = writer
                .segments
                .get(expired)
                .map_or(writer.end_offset, |segment| segment.base_offset);
            writer.log_start_offset = writer.log_start_offset.max(start);
            self.after_start_moved(&mut writer)?;
        }
        Ok(expired)
    }

    /// Forgets producers that have been idle for long.
    pub fn expire_producers(&self, now_ms: i64, expiration_ms: i64) {
        self.writer().producers.expire(now_ms, expiration_ms);
    }

    /// Refuses a producer that another one with the same id has replaced.
    pub fn check_producer_epoch(&self, producer_id: i64, epoch: i16) -> Result<(), ProducerError> {
        self.writer().producers.check_epoch(producer_id, epoch)
    }

    /// Whether a producer has a transaction open here.
    pub fn has_open_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.writer().producers.has_open_transaction(producer_id, epoch)
    }

    pub fn producers(&self) -> Producers {
        self.writer().producers.clone()
    }

    /// The offset below which nothing needs to be read after a crash.
    pub fn recovery_point(&self) -> i64 {
        self.writer().synced_offset
    }

    /// Closes the log, because its topic is deleted: nothing is written any more, and no name in its folder is
    /// touched, even if references remain. When this returns, the folder may be removed and reused by another
    /// log.
    pub fn retire(&self) {
        let _writer = self.writer();
        self.own.retire();
    }

    /// Leaves everything on disk so that the next start trusts it unread.
    pub fn close(&self) -> Result<(), StorageError> {
        self.check_online()?;
        let writer = self.writer();
        if let Some(segment) = writer.segments.last().filter(|segment| segment.size() > 0) {
            segment.write_indexes()?;
            self.write_snapshot(&writer)?;
        }
        drop(writer);
        self.sync().map(drop)
    }

    /// Drops the segments that lie wholly before the start of the log.
    fn after_start_moved(&self, writer: &mut Writer) -> Result<(), StorageError> {
        let start = writer.log_start_offset;
        let gone = writer
            .segments
            .iter()
            .skip(1)
            .take_while(|next| next.base_offset <= start)
            .count();
        if gone > 0 {
            cleaner::complete_swaps(&self.disk, &self.dir)?;
        }
        for segment in writer.segments.drain(..gone) {
            segment.prepare_removal()?;
            load::remove_segment(&*self.disk, &segment)?;
        }
        Arc::make_mut(&mut writer.epochs).truncate_start(start);
        if !writer.epochs.as_slice().is_empty() {
            self.write_epochs(writer)?;
        }
        self.publish(writer, self.config().durability);
        Ok(())
    }

    fn write_epochs(&self, writer: &Writer) -> Result<(), StorageError> {
        let path = self.dir.join(load::EPOCHS);
        checkpoint::write_epochs(&*self.disk, &path, writer.epochs.as_slice())
    }

    /// Writes a snapshot of the producer state at the end of the log.
    fn write_snapshot(&self, writer: &Writer) -> Result<(), StorageError> {
        let path = self.dir.join(file_name(writer.end_offset, "snapshot"));
        snapshot::write(&*self.disk, &path, &writer.producers)
    }

    pub(crate) fn publish(&self, writer: &mut Writer, durability: Durability) {
        let view = Arc::new(writer.view(durability));
        // First, so that readers see no state that the ledger lacks.
        if let Some(ledger) = self.ledger.get() {
            ledger.note(&writer.mark(view.high_watermark));
        }
        let mut current = self.view.write().unwrap_or_else(PoisonError::into_inner);
        invariant!(
            view.log_start_offset >= current.log_start_offset && view.log_end_offset >= current.log_end_offset,
            "log_offsets_never_move_back"
        );
        invariant!(
            view.last_stable_offset <= view.high_watermark && view.high_watermark <= view.log_end_offset,
            "visible_offsets_are_at_most_the_log_end"
        );
        *current = view;
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn layout(&self) -> MutexGuard<'_, ()> {
        self.layout.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
