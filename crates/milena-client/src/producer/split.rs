//! Splitting of batches that are too large for their topic.

use std::sync::Arc;

use milena_machines::produce::{BatchCause, BatchError, BatchId, NewBatch, Slot, WriteStatus};
use milena_wire::{
    compression::Compressor,
    errors::ErrorCode,
    pool::BufferPool,
    records::{
        BatchBuilder, BatchOptions, BatchProducer, Batches, ClosedBatch, Header, NO_PRODUCER, NO_SEQUENCE, NewRecord,
        RecordDecoder, RecordSet,
    },
};

use super::{
    batch_delivery::{BatchDelivery, BatchOutcome},
    drive::{register, take},
    error::SendError,
    shared::{PendingBatch, ProducerCore, ProducerShared},
};
use crate::consumer::TopicPartition;

impl ProducerShared {
    /// Splits a batch in two halves, which replace it in the sender.
    pub(super) fn split(&self, core: &mut ProducerCore, now_ms: i64, batch: BatchId, slot: Slot) {
        let Some(mut pending) = take(core, batch) else { return };
        if let Some(partition) = core.partitions.get(slot.index()) {
            partition.refuse_size(pending.uncompressed);
        }
        let Some(halves) = self.halves(&mut pending.batch) else {
            let target = &pending.delivery.topic_partition;
            pending.delivery.decide(BatchOutcome::Failed(SendError::Failed {
                partition: TopicPartition::new(target.topic.clone(), target.partition),
                error: Arc::new(BatchError {
                    cause: BatchCause::Refused(ErrorCode::MessageTooLarge),
                    status: WriteStatus::NotWritten,
                }),
            }));
            core.sender.push_split(now_ms, slot, batch, &[]);
            return;
        };
        core.metrics.record_split(now_ms);
        let mut parts: Vec<NewBatch> = vec![];
        let mut deliveries = vec![];
        let mut first = 0;
        for half in halves {
            let delivery = Arc::new(BatchDelivery::new(Arc::clone(&pending.delivery.topic_partition)));
            deliveries.push((first, Arc::clone(&delivery)));
            first += u32::try_from(half.record_count()).unwrap_or(0);
            let reservation = pending.reservation.part(half.size());
            parts.push(register(
                core,
                PendingBatch {
                    slot,
                    batch: half,
                    delivery,
                    reservation,
                    created_ms: pending.created_ms,
                    uncompressed: pending.uncompressed / 2,
                    largest_record: pending.largest_record,
                    tries: 0,
                },
            ));
        }
        pending.delivery.decide(BatchOutcome::Split(deliveries));
        core.sender.push_split(now_ms, slot, batch, &parts);
    }

    fn halves(&self, batch: &mut ClosedBatch) -> Option<[ClosedBatch; 2]> {
        let bytes = batch.seal(BatchProducer {
            producer_id: NO_PRODUCER,
            producer_epoch: -1,
            base_sequence: NO_SEQUENCE,
            transactional: false,
        });
        let mut decoder = RecordDecoder::new(BufferPool::new(0), usize::MAX);
        let mut records = RecordSet::default();
        let batch = Batches::new(bytes).next()?.ok()?;
        batch.decode_into(&mut decoder, &mut records).ok()?;
        let middle = records.len() / 2;
        let mut halves = [(); 2].map(|()| BatchBuilder::new(BatchOptions::default()));
        for (index, record) in records.iter().enumerate() {
            let headers: Vec<Header<'_>> = record.headers().collect();
            let half = halves.get_mut(usize::from(index >= middle))?;
            half.append(&NewRecord {
                timestamp: record.timestamp(),
                key: record.key(),
                value: record.value(),
                headers: &headers,
            })
            .ok()?;
        }
        let mut compressor = Compressor::new(self.limits.compressors.compression);
        let [first, second] = halves.map(|half| half.close_compressed(&mut compressor).ok());
        Some([first?.0, second?.0])
    }
}
