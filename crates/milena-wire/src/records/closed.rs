//! A batch that takes no more records, and whose producer is set when it is sent.

use bytes::Bytes;

use super::{builder::seal, header::BatchHeader};

/// The producer of a batch, and the batch's sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchProducer {
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub transactional: bool,
}

/// A complete batch. Its checksum covers the producer, which may change until the batch is sent: it is computed
/// when the producer is known, and again when it changes.
#[derive(Debug)]
pub struct ClosedBatch {
    header: BatchHeader,
    bytes: Bytes,
    sealed_for: Option<BatchProducer>,
}

impl ClosedBatch {
    pub(super) fn new(header: BatchHeader, bytes: Vec<u8>) -> Self {
        Self {
            header,
            bytes: Bytes::from(bytes),
            sealed_for: None,
        }
    }

    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    pub fn record_count(&self) -> i32 {
        self.header.record_count
    }

    pub fn max_timestamp(&self) -> i64 {
        self.header.max_timestamp
    }

    /// The whole batch with this producer. The bytes are copied only if an earlier result with another producer
    /// is still referenced.
    pub fn seal(&mut self, producer: BatchProducer) -> Bytes {
        if self.sealed_for != Some(producer) {
            self.header.producer_id = producer.producer_id;
            self.header.producer_epoch = producer.producer_epoch;
            self.header.base_sequence = producer.base_sequence;
            self.header.attributes = self.header.attributes.with_transactional(producer.transactional);
            let bytes = Vec::from(std::mem::take(&mut self.bytes));
            self.bytes = Bytes::from(seal(bytes, self.header));
            self.sealed_for = Some(producer);
        }
        self.bytes.clone()
    }

    /// Its buffer, for another batch; `None` if it is still referenced.
    pub fn into_buffer(self) -> Option<Vec<u8>> {
        self.bytes.is_unique().then(|| Vec::from(self.bytes))
    }
}
