//! A partition: its log, who waits for it, and what must be synced.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use bytes::Bytes;
use bytestring::ByteString;
use milena_log::{AppendError, Appended, Durability, Log, StorageError};
use tokio::sync::watch;

use crate::{
    syncer::{Asked, Syncer},
    waiters::Waiters,
};

#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) topic: ByteString,
    pub(crate) index: i32,
    pub(crate) log: Log,
    pub(crate) waiters: Waiters,
    /// What the syncer was asked for.
    pub(crate) asked: Asked,
    /// Whether its topic was deleted; then its files may be gone.
    deleted: AtomicBool,
    /// Whether somebody wrote while the last sync went on: then there are several writers.
    pub(crate) busy: AtomicBool,
    /// Up to where records survive a power cut; writers that were promised that wait here.
    synced: watch::Sender<i64>,
}

impl Partition {
    pub(crate) fn new(topic: ByteString, index: i32, log: Log) -> Self {
        let synced = watch::Sender::new(log.recovery_point());
        Self {
            topic,
            index,
            log,
            waiters: Waiters::default(),
            asked: Asked::default(),
            deleted: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            synced,
        }
    }

    /// Appends a batch and wakes those who wait for it, if they may see it already.
    pub(crate) fn append(
        self: &Arc<Self>,
        records: &Bytes,
        leader_epoch: i32,
        now_ms: i64,
        syncer: &Syncer,
    ) -> Result<Appended, AppendError> {
        let appended = self.log.append(records, leader_epoch, now_ms)?;
        match self.durability() {
            Durability::Memory => self.waiters.arrived(records.len()),
            Durability::Os => {
                self.waiters.arrived(records.len());
                syncer.written(self, records.len());
            }
            Durability::Fsync => syncer.request(self),
        }
        Ok(appended)
    }

    /// Whether a writer must wait until its records survive a power cut, before it hears of them.
    pub(crate) fn syncs_before_answer(self: &Arc<Self>, acks: i16, last_offset: i64, syncer: &Syncer) -> bool {
        let config = self.log.config();
        let unsynced = (last_offset + 1).saturating_sub(*self.synced.borrow());
        if config.flush_messages <= unsynced {
            syncer.request(self);
            return true;
        }
        acks == -1 && config.durability == Durability::Fsync
    }

    pub(crate) fn durability(&self) -> Durability {
        self.log.config().durability
    }

    /// Completes when all records up to `offset` survive a power cut.
    pub(crate) async fn wait_synced(&self, offset: i64) {
        // The sender lives as long as this partition, so waiting cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced > offset).await;
    }

    /// Says that the topic is deleted; from here on the files may go.
    pub(crate) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::SeqCst);
        self.waiters.wake_all();
    }

    /// Syncs the log, then tells writers and readers. Called by the syncer only.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let before = self.log.view().high_watermark;
        let synced = match self.log.sync() {
            // Nothing of it must survive any longer, so that nobody needs to wait.
            Err(_) if self.deleted.load(Ordering::SeqCst) => i64::MAX,
            outcome => outcome?,
        };
        self.synced.send_replace(synced);
        if self.log.view().high_watermark > before {
            // How many bytes became visible is not known; the fetches look.
            self.waiters.wake_all();
        }
        Ok(())
    }
}
