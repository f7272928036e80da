//! The records of a partition that only exists in a test.

use std::collections::BTreeMap;

use milena_client::consumer::OffsetAndTimestamp;
use milena_wire::{
    pool::BufferPool,
    records::{BatchOptions, Batches, RecordDecoder, RecordSet},
};

use crate::broker::{TestRecord, encode_batch_at};

/// No leader of a mock ever changes.
pub(super) const EPOCH: i32 = 0;
const DECODED_BYTES_MAX: usize = 1 << 30;

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) beginning: i64,
    pub(super) end: i64,
    records: BTreeMap<i64, TestRecord>,
}

impl Log {
    pub(super) fn add(&mut self, offset: i64, record: TestRecord) {
        assert!(
            offset >= self.end,
            "there is a record at offset {offset} or behind it: the end is {}",
            self.end
        );
        self.records.insert(offset, record);
        self.end = offset + 1;
    }

    pub(super) fn set_beginning(&mut self, offset: i64) {
        self.beginning = offset;
        self.end = self.end.max(offset);
        self.records = self.records.split_off(&offset);
    }

    pub(super) fn set_end(&mut self, offset: i64) {
        self.end = offset;
        self.beginning = self.beginning.min(offset);
        self.records.split_off(&offset);
    }

    /// The first record that is not older.
    pub(super) fn at_time(&self, timestamp: i64) -> Option<OffsetAndTimestamp> {
        let mut records = self.records.iter();
        records.find_map(|(offset, record)| {
            let found = record.timestamp.unwrap_or_default();
            (found >= timestamp).then_some(OffsetAndTimestamp {
                offset: *offset,
                timestamp: found,
                leader_epoch: Some(EPOCH),
            })
        })
    }

    /// Up to `max` records from `offset` on; `None` if there is none.
    pub(super) fn read(&self, offset: i64, max: usize) -> Option<RecordSet> {
        let records: Vec<(i64, &TestRecord)> = self
            .records
            .range(offset..)
            .take(max)
            .map(|(offset, record)| (*offset, record))
            .collect();
        let (first, _) = records.first()?;
        let options = BatchOptions {
            base_offset: *first,
            partition_leader_epoch: EPOCH,
            ..BatchOptions::default()
        };
        let batch = Batches::new(encode_batch_at(options, &records)).next()?;
        let mut set = RecordSet::default();
        let mut decoder = RecordDecoder::new(BufferPool::new(0), DECODED_BYTES_MAX);
        let decoded = batch.and_then(|batch| batch.decode_into(&mut decoder, &mut set));
        decoded.expect("a batch that was written can be read");
        Some(set)
    }
}
