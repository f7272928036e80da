//! A partition: its log, its waiting fetches, and its syncs.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use bytes::Bytes;
use bytestring::ByteString;
use milena_invariant::invariant;
use milena_log::{AppendError, Appended, Durability, Log, StorageError};
use milena_machines::transaction::ProducerEpoch;
use milena_wire::records::ControlRecord;
use tokio::sync::watch;

use crate::{
    metrics::PartitionMetrics,
    node::Node,
    syncer::{SyncRequest, Syncer},
    waiters::Waiters,
};

/// The approximate size of a marker's batch.
const MARKER_SIZE: usize = 78;

/// The marker that ends a transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndMarker {
    pub(crate) marker: ControlRecord,
    pub(crate) producer: ProducerEpoch,
    /// Whether the epoch is above that of the transaction's batches.
    pub(crate) has_new_epoch: bool,
}

#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) topic: ByteString,
    pub(crate) index: i32,
    pub(crate) log: Log,
    pub(crate) waiters: Waiters,
    pub(crate) metrics: PartitionMetrics,
    /// The sync that was requested and has not begun.
    pub(crate) sync_request: SyncRequest,
    /// Whether records were written during the last sync: there are several writers then.
    pub(crate) busy: AtomicBool,
    /// The offset of the last fetch.
    last_fetched: AtomicI64,
    /// The offset below which records survive a power cut. Writers that wait for a sync watch it.
    synced: watch::Sender<SyncProgress>,
}

/// The progress of syncs.
#[derive(Debug, Clone, Copy)]
struct SyncProgress {
    /// Records below this offset survive a power cut.
    end_offset: i64,
    /// Whether a sync has failed. There is no more progress then.
    failed: bool,
}

/// A sync has failed, so records may be lost.
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
            metrics: PartitionMetrics::default(),
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

    /// Whether a fetch repeats the offset of the one before, as a reader does that is stuck at a damaged batch.
    pub(crate) fn is_refetch(&self, offset: i64) -> bool {
        self.last_fetched.swap(offset, Ordering::Relaxed) == offset
    }

    /// Appends a batch, and wakes waiting fetches if they may read it already.
    pub(crate) fn append(
        self: &Arc<Self>,
        records: &Bytes,
        leader_epoch: i32,
        now_ms: i64,
        syncer: &Syncer,
    ) -> Result<Appended, AppendError> {
        let appended = self.log.append(records, leader_epoch, now_ms)?;
        invariant!(
            appended.base_offset <= appended.last_offset,
            "offsets_of_a_batch_ascend"
        );
        if !appended.duplicate {
            let messages = appended.last_offset - appended.base_offset + 1;
            self.metrics.appended(records.len(), messages);
        }
        self.arrived(records.len(), syncer);
        Ok(appended)
    }

    /// Appends a batch of the broker itself.
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
        // The end of a transaction makes more visible than the marker, so all waiting fetches read again.
        self.waiters.wake_all();
        Ok(appended)
    }

    /// Wakes waiting fetches if they may read the records already, and requests the sync.
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

    /// Whether all records below an offset are as durable as the topic promises.
    pub(crate) fn is_durable(&self, end_offset: i64) -> bool {
        self.durability() != Durability::Fsync || self.synced.borrow().end_offset >= end_offset
    }

    /// Whether the response to a producer must wait until its records are synced.
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
        // The sender lives as long as this partition, so the wait always ends.
        match reached {
            Ok(synced) if synced.end_offset > offset => Ok(()),
            _ => Err(SyncFailed),
        }
    }

    /// Ends the partition, because its topic is deleted. From here on its files may be removed, and a new topic of the same
    /// name may use the folder, even while requests still hold this partition.
    pub(crate) fn retire(&self) {
        self.log.retire();
        self.waiters.wake_all();
    }

    /// Syncs the log, then wakes writers and readers. Called by the syncer only.
    pub(crate) fn sync(&self) -> Result<(), StorageError> {
        let before = self.log.view().high_watermark;
        let end_offset = match self.log.sync() {
            Ok(end_offset) => end_offset,
            // A deleted log needs no sync, so no writer has to wait.
            Err(StorageError::Retired { .. }) => i64::MAX,
            Err(error) => {
                self.synced.send_modify(|synced| synced.failed = true);
                return Err(error);
            }
        };
        self.synced.send_modify(|synced| {
            invariant!(end_offset >= synced.end_offset, "synced_offsets_never_move_back");
            synced.end_offset = end_offset;
        });
        if self.log.view().high_watermark > before {
            // The number of bytes that became visible is unknown, so the fetches read again.
            self.waiters.wake_all();
        }
        Ok(())
    }
}
