//! The batches in which coordinators store their records.

use std::sync::Arc;

use bytes::Bytes;
use milena_invariant::invariant;
use milena_log::AppendError;
use milena_machines::{StoredRecord, transaction::ProducerEpoch};
use milena_wire::{
    encode::EncodeError,
    records::{Attributes, BatchBuilder, BatchOptions, NewRecord},
};

use crate::{node::Node, partition::Partition};

/// The reason why records could not be stored.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("the records do not fit into one batch")]
    TooLarge,
    #[error("the disk failed to sync; restart the broker")]
    DiskFailed,
    #[error(transparent)]
    Append(#[from] AppendError),
}

/// Appends the records, all or none; with `producer` they are part of its transaction.
pub(super) fn append(
    partition: &Arc<Partition>,
    records: &[StoredRecord],
    producer: Option<ProducerEpoch>,
    node: &Node,
) -> Result<(), StoreError> {
    if node.syncer.has_failed() {
        return Err(StoreError::DiskFailed);
    }
    let batch = encode(records, producer, node.now_ms()).ok_or(StoreError::TooLarge)?;
    let appended = partition.append_own(&batch, node)?;
    invariant!(
        appended.last_offset - appended.base_offset + 1 == records.len() as i64,
        "a_stored_batch_has_all_records"
    );
    Ok(())
}

/// Encodes all records as one batch, so that all of them are stored or none; `None` if they do not fit into one.
fn encode(records: &[StoredRecord], producer: Option<ProducerEpoch>, now_ms: i64) -> Option<Bytes> {
    let mut options = BatchOptions::default();
    if let Some(producer) = producer {
        options.attributes = Attributes::default().with_transactional(true);
        options.producer_id = producer.producer_id;
        options.producer_epoch = producer.epoch;
    }
    let mut batch = BatchBuilder::new(options);
    for record in records {
        let record = NewRecord {
            timestamp: now_ms,
            key: Some(&record.key),
            value: record.value.as_deref(),
            headers: &[],
        };
        batch.append(&record).ok()?;
    }
    Some(batch.finish())
}
