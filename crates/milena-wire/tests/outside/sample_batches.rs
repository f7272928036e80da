//! Batches as our builder makes them: every codec, every shape.

use bytes::Bytes;
use milena_wire::{
    compression::{Codec, Compression, Compressor},
    records::{Attributes, BatchBuilder, BatchOptions, ControlRecord, Header, NewRecord, TimestampType, patch_header},
};

/// Named batches in `codec`, each starting at offset 0.
pub fn data_batches(codec: Codec) -> Vec<(String, Bytes)> {
    let idempotent = BatchOptions {
        producer_id: 12,
        producer_epoch: 3,
        base_sequence: i32::MAX - 1,
        ..BatchOptions::default()
    };
    let shapes = [
        ("plain", BatchOptions::default(), 3),
        ("large", BatchOptions::default(), 5_000),
        ("idempotent", idempotent, 4),
    ];
    let name = |shape: &str| format!("{codec}-{shape}");
    let mut batches: Vec<_> = shapes
        .into_iter()
        .map(|(shape, options, count)| (name(shape), build(codec, options, count)))
        .collect();
    let mut appended = build(codec, BatchOptions::default(), 3).to_vec();
    patch_header(&mut appended, |header| {
        header.attributes = header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        header.max_timestamp = 1_800_000_000_000;
    });
    batches.push((name("log-append-time"), appended.into()));
    batches
}

/// Batches that only a broker or a transaction writes.
pub fn special_batches() -> Vec<(String, Bytes)> {
    let transactional = BatchOptions {
        attributes: Attributes::default().with_transactional(true),
        producer_id: 12,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let commit = ControlRecord::Commit { coordinator_epoch: 4 };
    let abort = ControlRecord::Abort { coordinator_epoch: 5 };
    let marker = |record: ControlRecord| record.end_transaction_batch(1_700_000_000_000, 12, 0).unwrap().unwrap();
    let horizon = BatchOptions {
        base_offset: 40,
        delete_horizon_ms: Some(1_700_000_500_000),
        ..BatchOptions::default()
    };
    let mut gaps = BatchBuilder::new(horizon);
    for offset_delta in [1, 5] {
        gaps.append_at(offset_delta, &record(offset_delta as usize, &[]))
            .unwrap();
    }
    let mut compacted = gaps.finish().to_vec();
    patch_header(&mut compacted, |header| header.last_offset_delta = 9);
    vec![
        ("transactional".to_owned(), build(Codec::None, transactional, 2)),
        ("commit".to_owned(), marker(commit)),
        ("abort".to_owned(), marker(abort)),
        ("compacted".to_owned(), compacted.into()),
    ]
}

pub fn build(codec: Codec, options: BatchOptions, count: usize) -> Bytes {
    let headers = [
        Header::new("kind", b"order"),
        Header::new("kind", b""),
        Header { key: b"", value: None },
    ];
    let mut builder = BatchBuilder::new(options);
    for i in 0..count {
        // Headers on every third record, out of order timestamps, nulls and empty values now and then.
        let headers = if i % 3 == 0 { &headers[..] } else { &[] };
        builder.append(&record(i, headers)).unwrap();
    }
    let mut compressor = Compressor::new(Compression::from(codec));
    builder.finish_compressed(&mut compressor).unwrap().0
}

fn record<'a>(i: usize, headers: &'a [Header<'a>]) -> NewRecord<'a> {
    const TEXT: &[u8] = b"a value that repeats itself, a value that repeats itself, and then it ends. 0123456789";
    NewRecord {
        timestamp: 1_700_000_000_000 + (i as i64 * 37) % 101,
        key: (i % 5 != 4).then_some(&TEXT[..i % 9]),
        value: (i % 7 != 6).then_some(&TEXT[i % 11..]),
        headers,
    }
}
