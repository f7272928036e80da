//! Rewrites a batch with some of its records.

use std::collections::HashMap;

use bytes::Bytes;
use milena_wire::{
    compression::{Codec, Compressor},
    pool::BufferPool,
    records::{
        Attributes, BATCH_OVERHEAD, Batch, BatchBuilder, BatchHeader, BatchOptions, HEADER_SIZE, Header, NO_PRODUCER,
        NO_SEQUENCE, NewRecord, Record, RecordDecoder, RecordSet,
    },
};

use super::error::CompactionError;

/// Largest decompressed batch; the broker accepts none that is larger.
const DECOMPRESSED_MAX: usize = 1 << 30;

/// Memory and codecs for one batch after the other.
pub(super) struct Rebuilder {
    decoder: RecordDecoder,
    set: RecordSet,
    /// For each record of the set, whether it is kept.
    stays: Vec<bool>,
    buffer: Vec<u8>,
    compressors: HashMap<Codec, Compressor>,
}

impl Rebuilder {
    pub(super) fn new() -> Self {
        Self {
            decoder: RecordDecoder::new(BufferPool::new(64 << 20), DECOMPRESSED_MAX),
            set: RecordSet::default(),
            stays: vec![],
            buffer: vec![],
            compressors: HashMap::new(),
        }
    }

    /// Decodes a batch. Its checksum is verified first, because the rewritten batch gets a new one.
    pub(super) fn decode(&mut self, batch: &Batch) -> Result<(), CompactionError> {
        batch.verify()?;
        Ok(batch.decode_into(&mut self.decoder, &mut self.set)?)
    }

    /// The records of the batch that was decoded last.
    pub(super) fn records(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        self.set.iter()
    }

    /// Decides for each of them whether it is kept; returns the number of kept records.
    pub(super) fn mark(&mut self, stays: impl FnMut(Record<'_>) -> bool) -> usize {
        self.stays.clear();
        self.stays.extend(self.set.iter().map(stays));
        self.stays.iter().filter(|stays| **stays).count()
    }

    /// The batch with only the kept records, at their old offsets.
    pub(super) fn rebuild(&mut self, batch: &Batch, delete_horizon_ms: Option<i64>) -> Result<Bytes, CompactionError> {
        let header = self.header_of(batch);
        let options = BatchOptions {
            base_offset: header.base_offset,
            partition_leader_epoch: header.partition_leader_epoch,
            attributes: header.attributes,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            delete_horizon_ms,
        };
        let mut builder = BatchBuilder::with_buffer(options, std::mem::take(&mut self.buffer));
        let mut headers: Vec<Header<'_>> = vec![];
        for (record, _) in self.set.iter().zip(&self.stays).filter(|(_, stays)| **stays) {
            headers.clear();
            headers.extend(record.headers());
            let new = NewRecord {
                timestamp: record.timestamp(),
                key: record.key(),
                value: record.value(),
                headers: &headers,
            };
            let offset_delta = i32::try_from(record.offset() - header.base_offset);
            let out_of_range = |_| CompactionError::OffsetOutOfRange {
                base_offset: header.base_offset,
                offset: record.offset(),
            };
            builder.append_at(offset_delta.map_err(out_of_range)?, &new)?;
        }
        builder.reach(header.last_offset_delta);
        let base_offset = header.base_offset;
        let codec = header.attributes.codec();
        let codec = codec.map_err(|id| CompactionError::UnknownCodec { base_offset, id })?;
        if codec == Codec::None {
            return Ok(builder.finish());
        }
        let compressor = compressor(&mut self.compressors, codec);
        let (bytes, buffer) = builder.finish_compressed(compressor)?;
        self.buffer = buffer;
        Ok(bytes)
    }

    /// Takes the memory of a batch back that is written by now.
    pub(super) fn recycle(&mut self, batch: Bytes) {
        if self.buffer.capacity() < batch.len() {
            self.buffer = Vec::from(batch);
        }
    }

    /// The header for the new batch. Old formats are rewritten without compression.
    fn header_of(&self, batch: &Batch) -> BatchHeader {
        let (first, last) = (self.set.get(0), batch.last_offset());
        let base_offset = first.map_or(last, |record| record.offset());
        let attributes = first.map_or_else(Attributes::default, |record| {
            Attributes::default().with_timestamp_type(record.timestamp_type())
        });
        match batch {
            Batch::V2(batch) => *batch.header(),
            Batch::Legacy(_) => BatchHeader {
                base_offset,
                attributes,
                last_offset_delta: i32::try_from(last - base_offset).unwrap_or(0),
                ..plain_header(base_offset)
            },
        }
    }
}

/// A batch without records: it preserves the state of its producer and the offset of the next batch.
pub(super) fn empty(batch: &Batch) -> Bytes {
    let header = match batch {
        Batch::V2(batch) => *batch.header(),
        Batch::Legacy(message) => plain_header(message.offset()),
    };
    let mut header = BatchHeader {
        length: (HEADER_SIZE - BATCH_OVERHEAD) as i32,
        attributes: header.attributes.with_codec(Codec::None).with_delete_horizon(false),
        base_timestamp: -1,
        record_count: 0,
        ..header
    };
    header.crc = header.compute_crc(&[]);
    Bytes::copy_from_slice(&header.to_bytes())
}

/// The header of a batch of one record that no idempotent producer wrote.
fn plain_header(base_offset: i64) -> BatchHeader {
    BatchHeader {
        base_offset,
        length: 0,
        partition_leader_epoch: -1,
        crc: 0,
        attributes: Attributes::default(),
        last_offset_delta: 0,
        base_timestamp: -1,
        max_timestamp: -1,
        producer_id: NO_PRODUCER,
        producer_epoch: -1,
        base_sequence: NO_SEQUENCE,
        record_count: 0,
    }
}

fn compressor(compressors: &mut HashMap<Codec, Compressor>, codec: Codec) -> &mut Compressor {
    compressors
        .entry(codec)
        .or_insert_with(|| Compressor::new(codec.into()))
}
