//! A partition: its log, who waits for it, and what must be synced.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use bytes::Bytes;
use bytestring::ByteString;
use milena_log::{AppendError, Appended, Durability, Log, StorageError};
use milena_machines::transaction::ProducerEpoch;
use milena_wire::records::ControlRecord;
use tokio::sync::watch;

use crate::{
    node::Node,
    syncer::{SyncRequest, Syncer},
    waiters::Waiters,
};

/// About what the batch of a marker takes.
const MARKER_SIZE: usize = 78;

/// How a transaction ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndMarker {
    pub(crate) marker: ControlRecord,
    pub(crate) producer: ProducerEpoch,
    /// Whether the epoch is above that of all the transaction wrote.
    pub(crate) has_new_epoch: bool,
}

#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) topic: ByteString,
    pub(crate) index: i32,
    pub(crate) log: Log,
    pub(crate) waiters: Waiters,
    /// What the syncer was asked for.
    pub(crate) sync_request: SyncRequest,
    /// Whether somebody wrote while the last sync went on: then there are several writers.
    pub(crate) busy: AtomicBool,
    /// The offset that the last fetch began with.
    last_fetched: AtomicI64,
    /// Up to where records survive a power cut; writers that were promised that wait here.
    synced: watch::Sender<SyncProgress>,
}

/// How far syncs have come.
#[derive(Debug, Clone, Copy)]
struct SyncProgress {
    /// Records below this offset survive a power cut.
    end_offset: i64,
    /// Whether a sync has failed. Then it will never come further.
    failed: bool,
}

/// A sync has failed, so what was written may be lost.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the disk failed to sync; restart the broker")]
pub(crate) struct SyncFailed;

impl Partition {
    pub(crate) fn new(topic: ByteString, index: i32, log: Log) -> Self {
        let synced = watch::Sender::new(SyncProgress {
            end_offset: log.recovery_point(),
            failed: false,
        });
        Self {
            topic,
            index,
            log,
            waiters: Waiters::default(),
            sync_request: SyncRequest::default(),
            busy: AtomicBool::new(false),
            last_fetched: AtomicI64::new(-1),
            synced,
        }
    }

    /// Whether its log could be opened.
    pub(crate) fn is_online(&self) -> bool {
        self.log.offline_reason().is_none()
    }

    /// Whether a fetch asks again for what was asked for last, as a reader does that cannot go past a damaged batch.
    pub(crate) fn is_refetch(&self, offset: i64) -> bool {
        self.last_fetched.swap(offset, Ordering::Relaxed) == offset
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
        self.arrived(records.len(), syncer);
        Ok(appended)
    }

    /// Appends a batch that the broker made itself.
    pub(crate) fn append_own(self: &Arc<Self>, batch: &Bytes, node: &Node) -> Result<Appended, AppendError> {
        let appended = self.log.append_own(batch, node.leader_epoch, node.now_ms())?;
        self.arrived(batch.len(), &node.syncer);
        Ok(appended)
    }

    /// Appends the marker that ends a transaction.
    pub(crate) fn append_marker(self: &Arc<Self>, end: EndMarker, node: &Node) -> Result<Appended, AppendError> {
        let ProducerEpoch { producer_id, epoch } = end.producer;
        let end = milena_log::EndMarker {
            marker: end.marker,
            producer_id,
            producer_epoch: epoch,
            has_new_epoch: end.has_new_epoch,
        };
        let appended = self.log.append_marker(end, node.leader_epoch, node.now_ms())?;
        self.arrived(MARKER_SIZE, &node.syncer);
        // The end of a transaction makes more visible than itself, so whoever waits looks again.
        self.waiters.wake_all();
        Ok(appended)
    }

    /// Wakes those who wait for records, if they may see them already, and sees to the sync.
    fn arrived(self: &Arc<Self>, bytes: usize, syncer: &Syncer) {
        match self.durability() {
            Durability::Memory => self.waiters.arrived(bytes),
            Durability::Os => {
                self.waiters.arrived(bytes);
                syncer.written(self, bytes);
            }
            Durability::Fsync => syncer.request(self),
        }
    }

    /// Whether everything below an offset survives what the topic's mode promises to survive.
    pub(crate) fn is_durable(&self, end_offset: i64) -> bool {
        self.durability() != Durability::Fsync || self.synced.borrow().end_offset >= end_offset
    }

    /// Whether a writer must wait until its records survive a power cut, before it hears of them.
    pub(crate) fn syncs_before_response(self: &Arc<Self>, acks: i16, last_offset: i64, syncer: &Syncer) -> bool {
        let config = self.log.config();
        let unsynced = (last_offset + 1).saturating_sub(self.synced.borrow().end_offset);
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
    pub(crate) async fn wait_synced(&self, offset: i64) -> Result<(), SyncFailed> {
        let mut synced = self.synced.subscribe();
        let reached = synced
            .wait_for(|synced| synced.end_offset > offset || synced.failed)
            .await;
        // The sender lives as long as this partition, so there is always an outcome.
        match reached {
            Ok(synced) if synced.end_offset > offset => Ok(()),
            _ => Err(SyncFailed),
        }
    }

    /// Ends the partition, because its topic is deleted. From here on its files may go, and a new topic of the same name
    /// may have its folder, whoever still holds this partition.
    pub(crate) fn retire(&self) {
        self.log.retire();
        self.waiters.wake_all();
    }

    /// Syncs the log, then tells writers and readers. Called by the syncer only.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let before = self.log.view().high_watermark;
        let end_offset = match self.log.sync() {
            Ok(end_offset) => end_offset,
            // Nothing of it must survive any longer, so that nobody needs to wait.
            Err(StorageError::Retired { .. }) => i64::MAX,
            Err(error) => {
                self.synced.send_modify(|synced| synced.failed = true);
                return Err(error);
            }
        };
        self.synced.send_modify(|synced| synced.end_offset = end_offset);
        if self.log.view().high_watermark > before {
            // How many bytes became visible is not known; the fetches look.
            self.waiters.wake_all();
        }
        Ok(())
    }
}
