//! Control records: transaction markers of the broker, which consumers do not deliver.

use bytes::Bytes;

use super::{
    builder::{BatchBuilder, BatchOptions, NewRecord},
    header::Attributes,
    record::Record,
};
use crate::{
    decode::DecodeError,
    encode::EncodeError,
    messages::{ControlRecordTypeSchema, EndTxnMarker},
    prefixed,
};

/// The content of a control record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlRecord {
    /// The producer's transaction is aborted.
    Abort { coordinator_epoch: i32 },
    /// The producer's transaction is committed.
    Commit { coordinator_epoch: i32 },
    /// A type that readers of data ignore: of Kafka's own quorum, or of a newer Kafka.
    Other { record_type: i16 },
}

const ABORT: i16 = 0;
const COMMIT: i16 = 1;
const VERSION: i16 = 0;

impl ControlRecord {
    /// Reads the record of a control batch.
    pub fn parse(record: &Record<'_>) -> Result<Self, DecodeError> {
        let key = Bytes::copy_from_slice(record.key().unwrap_or_default());
        let record_type = prefixed::decode_newest::<ControlRecordTypeSchema>(&key)?.r#type;
        if record_type != ABORT && record_type != COMMIT {
            return Ok(Self::Other { record_type });
        }
        let value = Bytes::copy_from_slice(record.value().unwrap_or_default());
        let EndTxnMarker { coordinator_epoch, .. } = prefixed::decode_newest(&value)?;
        Ok(match record_type {
            COMMIT => Self::Commit { coordinator_epoch },
            _ => Self::Abort { coordinator_epoch },
        })
    }

    /// The batch that ends a transaction of `producer_id`; `None` for a type that this function does not write.
    pub fn end_transaction_batch(
        self,
        timestamp: i64,
        producer_id: i64,
        producer_epoch: i16,
    ) -> Result<Option<Bytes>, EncodeError> {
        let (record_type, coordinator_epoch) = match self {
            Self::Abort { coordinator_epoch } => (ABORT, coordinator_epoch),
            Self::Commit { coordinator_epoch } => (COMMIT, coordinator_epoch),
            Self::Other { .. } => return Ok(None),
        };
        let key = prefixed::encode_versioned(&ControlRecordTypeSchema { r#type: record_type }, VERSION)?;
        let value = prefixed::encode_versioned(&EndTxnMarker { coordinator_epoch }, VERSION)?;
        let mut batch = BatchBuilder::new(BatchOptions {
            attributes: Attributes::default().with_transactional(true).with_control(true),
            producer_id,
            producer_epoch,
            ..BatchOptions::default()
        });
        let marker = NewRecord {
            timestamp,
            key: Some(&key),
            value: Some(&value),
            headers: &[],
        };
        // A few bytes always fit.
        Ok(batch.append(&marker).ok().map(|()| batch.finish()))
    }
}
