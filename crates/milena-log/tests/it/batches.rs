//! Batches to append, and records read back.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use milena_log::{EndMarker, Isolation, Log, LogConfig, LogView, Opening, disk::Disk};
use milena_wire::{
    pool::BufferPool,
    records::{BatchBuilder, BatchOptions, Batches, ControlRecord, NewRecord, RecordDecoder, RecordSet},
};

pub const DIR: &str = "/data/letters-0";

pub const FRESH: Opening = Opening {
    clean: true,
    recovery_point: 0,
    log_start_offset: 0,
    known: None,
    accept_loss: false,
};

/// As after the death of the process, with nothing known to be synced.
pub const KILLED: Opening = Opening { clean: false, ..FRESH };

pub fn open(disk: &Arc<dyn Disk>, config: &LogConfig, opening: Opening) -> Log {
    Log::open(Arc::clone(disk), Path::new(DIR), config.clone(), opening).unwrap()
}

/// A record in the model: its time and its value.
#[derive(Clone, PartialEq, Eq)]
pub struct Plain {
    pub timestamp: i64,
    pub value: Vec<u8>,
}

/// Short, because a failing test prints many.
impl std::fmt::Debug for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{:?}x{}", self.timestamp, self.value.first(), self.value.len())
    }
}

impl Plain {
    pub fn new(timestamp: i64, value: &str) -> Self {
        Self {
            timestamp,
            value: value.as_bytes().to_vec(),
        }
    }
}

/// The end of a transaction whose marker has the epoch of its data.
pub fn end_of(marker: ControlRecord, producer_id: i64, producer_epoch: i16) -> EndMarker {
    EndMarker {
        marker,
        producer_id,
        producer_epoch,
        has_new_epoch: false,
    }
}

pub fn batch(records: &[Plain]) -> Bytes {
    batch_with(records, BatchOptions::default())
}

/// A batch of an idempotent producer.
pub fn sequenced(records: &[Plain], producer_id: i64, base_sequence: i32) -> Bytes {
    batch_with(
        records,
        BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence,
            ..BatchOptions::default()
        },
    )
}

pub fn batch_with(records: &[Plain], options: BatchOptions) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for record in records {
        let new = NewRecord {
            timestamp: record.timestamp,
            key: Some(b"key"),
            value: Some(&record.value),
            headers: &[],
        };
        builder.append(&new).unwrap();
    }
    builder.finish()
}

/// All records from `offset` on, read as a client would: piece by piece.
pub fn read_all(view: &LogView, mut offset: i64, len_max: usize) -> Vec<(i64, Plain)> {
    let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 20);
    let mut set = RecordSet::default();
    let mut all = vec![];
    while let Some(slice) = view.read(offset, len_max, Isolation::ReadUncommitted).unwrap() {
        let before = offset;
        for batch in Batches::new(slice.read().unwrap()) {
            let batch = batch.unwrap();
            batch.verify().unwrap();
            batch.decode_into(&mut decoder, &mut set).unwrap();
            for record in set.iter_from(offset) {
                let plain = Plain {
                    timestamp: record.timestamp(),
                    value: record.value().unwrap().to_vec(),
                };
                all.push((record.offset(), plain));
            }
            offset = batch.last_offset() + 1;
        }
        assert!(offset > before, "a read brings at least one batch");
    }
    all
}
