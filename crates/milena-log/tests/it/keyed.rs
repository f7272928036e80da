//! Records with keys, to write and to read back.

use bytes::Bytes;
use milena_log::{Isolation, LogView};
use milena_wire::{
    compression::{Codec, Compressor},
    pool::BufferPool,
    records::{Batch, BatchBuilder, BatchOptions, Batches, Header, NewRecord, RecordDecoder, RecordSet},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keyed {
    pub timestamp: i64,
    pub key: String,
    /// `None` for a tombstone.
    pub value: Option<String>,
}

impl Keyed {
    pub fn new(timestamp: i64, key: &str, value: Option<&str>) -> Self {
        Self {
            timestamp,
            key: key.to_owned(),
            value: value.map(str::to_owned),
        }
    }
}

pub fn keyed(records: &[Keyed], options: BatchOptions, codec: Codec) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for record in records {
        let new = NewRecord {
            timestamp: record.timestamp,
            key: Some(record.key.as_bytes()),
            value: record.value.as_deref().map(str::as_bytes),
            headers: &[Header::new("kind", b"letter"), Header::new("kind", b"")],
        };
        builder.append(&new).unwrap();
    }
    let (bytes, _) = builder.finish_compressed(&mut Compressor::new(codec.into())).unwrap();
    bytes
}

/// All batches that a reader may see from `offset` on.
pub fn batches(view: &LogView, mut offset: i64, len_max: usize, isolation: Isolation) -> Vec<Batch> {
    let mut all = vec![];
    while let Some(slice) = view.read(offset, len_max, isolation).unwrap() {
        let before = offset;
        for batch in Batches::new(slice.read().unwrap()) {
            let batch = batch.unwrap();
            batch.verify().unwrap();
            offset = batch.last_offset() + 1;
            all.push(batch);
        }
        assert!(offset > before, "a read brings at least one batch");
    }
    all
}

/// The committed records from `offset` on, as a consumer finds them.
pub fn committed(view: &LogView, offset: i64, len_max: usize) -> Vec<(i64, Keyed)> {
    let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 20);
    let mut set = RecordSet::default();
    let mut all = vec![];
    let aborted = view.aborted_transactions(offset, view.last_stable_offset).unwrap();
    for batch in batches(view, offset, len_max, Isolation::ReadCommitted) {
        batch.decode_into(&mut decoder, &mut set).unwrap();
        let Batch::V2(batch) = batch else { unreachable!() };
        let header = batch.header();
        let is_aborted = header.attributes.is_transactional()
            && aborted.iter().any(|transaction| {
                transaction.producer_id == header.producer_id
                    && (transaction.first_offset..=transaction.last_offset).contains(&header.base_offset)
            });
        if header.attributes.is_control() || is_aborted {
            continue;
        }
        for record in set.iter_from(offset) {
            assert_eq!(record.headers().count(), 2);
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let keyed = Keyed {
                timestamp: record.timestamp(),
                key: text(record.key().unwrap()),
                value: record.value().map(text),
            };
            all.push((record.offset(), keyed));
        }
    }
    all
}
