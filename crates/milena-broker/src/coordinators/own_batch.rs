//! The batches in which coordinators keep their records.

use bytes::Bytes;
use milena_machines::{StoredRecord, transaction::ProducerEpoch};
use milena_wire::records::{Attributes, BatchBuilder, BatchOptions, NewRecord};

/// One batch with all the records, so that all of them are stored or none; `None` if they do not fit into one.
pub(super) fn encode(records: &[StoredRecord], producer: Option<ProducerEpoch>, now_ms: i64) -> Option<Bytes> {
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
