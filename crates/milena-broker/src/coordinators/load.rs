//! Loading: the replay of a partition of an internal topic into a machine.

use bytes::Bytes;
use milena_log::{Isolation, ReadError, StorageError};
use milena_machines::transaction::ProducerEpoch;
use milena_wire::{
    decode::DecodeError,
    pool::BufferPool,
    records::{Batch, BatchError, Batches, ControlRecord, RecordDecoder, RecordSet},
};

use crate::partition::Partition;

/// The bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// The decompressed size limit of a batch. Batches of this broker are not compressed, but those that Kafka wrote may be.
const DECOMPRESSED_MAX: usize = 64 << 20;

/// One entry of an internal topic.
pub(super) enum Entry<'a> {
    Record {
        /// Set if the record is part of a transaction.
        producer: Option<ProducerEpoch>,
        key: &'a Bytes,
        value: Option<&'a Bytes>,
    },
    Marker {
        producer: ProducerEpoch,
        committed: bool,
    },
}

#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Record(#[from] DecodeError),
}

/// Passes every entry of the log to `take`, in order.
pub(super) fn replay(
    partition: &Partition,
    mut take: impl FnMut(Entry<'_>) -> Result<(), DecodeError>,
) -> Result<(), LoadError> {
    if partition.log.is_dirty() {
        // Only synced records can be read, and all of them are needed.
        partition.log.sync()?;
    }
    let view = partition.log.view();
    let mut decoder = RecordDecoder::new(BufferPool::new(READ_BYTES), DECOMPRESSED_MAX);
    let mut set = RecordSet::default();
    let mut offset = view.log_start_offset;
    while let Some(slice) = view.read(offset, READ_BYTES, Isolation::ReadUncommitted)? {
        for batch in Batches::new(slice.read()?) {
            let Batch::V2(batch) = batch? else {
                // Neither this broker nor a supported Kafka has written internal topics in the old formats.
                continue;
            };
            let header = *batch.header();
            offset = header.last_offset() + 1;
            batch.verify()?;
            batch.decode_into(&mut decoder, &mut set)?;
            let producer = ProducerEpoch {
                producer_id: header.producer_id,
                epoch: header.producer_epoch,
            };
            for record in set.iter() {
                if header.attributes.is_control() {
                    let committed = match ControlRecord::parse(&record)? {
                        ControlRecord::Commit { .. } => true,
                        ControlRecord::Abort { .. } => false,
                        ControlRecord::Other { .. } => continue,
                    };
                    take(Entry::Marker { producer, committed })?;
                    continue;
                }
                let Some(key) = record.key().map(Bytes::copy_from_slice) else {
                    continue;
                };
                let value = record.value().map(Bytes::copy_from_slice);
                take(Entry::Record {
                    producer: header.attributes.is_transactional().then_some(producer),
                    key: &key,
                    value: value.as_ref(),
                })?;
            }
        }
    }
    Ok(())
}
