//! Record batches against Kafka's own: its bytes through our reader, our bytes against its bytes.

use bytes::Bytes;
use milena_wire::{
    compression::Codec,
    pool::BufferPool,
    records::{Batch, BatchBuilder, BatchOptions, Batches, Header, NewRecord, RecordDecoder, RecordSet, TimestampType},
};

use crate::{describe::describe, vectors};

struct Case {
    name: String,
    bytes: Bytes,
    /// The bytes as decoded by Kafka's classes.
    expected: String,
}

fn cases() -> Vec<Case> {
    let text = vectors::unzip(include_bytes!("../golden/batches.txt.gz"));
    let mut cases: Vec<Case> = vec![];
    for line in text.lines() {
        if let Some(case) = line.strip_prefix("case ") {
            let (name, bytes) = case.split_once(' ').unwrap();
            cases.push(Case {
                name: name.to_owned(),
                bytes: vectors::unhex(bytes),
                expected: String::new(),
            });
        } else {
            let expected = &mut cases.last_mut().unwrap().expected;
            expected.push_str(line);
            expected.push('\n');
        }
    }
    assert!(cases.len() > 60, "{} cases", cases.len());
    cases
}

#[test]
fn our_reader_sees_what_kafkas_sees() {
    for case in cases() {
        // The old formats have no header for a whole batch that could be described.
        let described = |line: &&str| !line.starts_with("batch 0") && !line.starts_with("batch 1");
        let expected: String = case
            .expected
            .lines()
            .filter(described)
            .flat_map(|line| [line, "\n"])
            .collect();
        assert_eq!(describe(&case.bytes), expected, "{}", case.name);
    }
}

/// Every uncompressed batch of format 2, taken apart and built again.
#[test]
fn our_builder_writes_kafkas_bytes() {
    let mut built = 0;
    for case in cases() {
        let batches: Vec<Batch> = Batches::new(case.bytes.clone()).map(Result::unwrap).collect();
        let [Batch::V2(batch)] = &batches[..] else { continue };
        let header = *batch.header();
        // Kafka keeps the producer's deltas under log append time, which a reader never sees.
        let log_append_time = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
        if header.attributes.codec() != Ok(Codec::None) || log_append_time {
            continue;
        }
        assert_eq!(rebuild(batch), case.bytes, "{}", case.name);
        built += 1;
    }
    assert!(built >= 10, "{built} batches built");
}

fn rebuild(batch: &milena_wire::records::RecordBatch) -> Bytes {
    let header = *batch.header();
    let mut set = RecordSet::default();
    batch
        .decode_into(&mut RecordDecoder::new(BufferPool::new(0), 0), &mut set)
        .unwrap();
    let mut builder = BatchBuilder::new(BatchOptions {
        base_offset: header.base_offset,
        partition_leader_epoch: header.partition_leader_epoch,
        attributes: header.attributes,
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        base_sequence: header.base_sequence,
        delete_horizon_ms: header.delete_horizon_ms(),
    });
    for record in set.iter() {
        let headers: Vec<Header<'_>> = record.headers().collect();
        let new = NewRecord {
            timestamp: record.timestamp(),
            key: record.key(),
            value: record.value(),
            headers: &headers,
        };
        let announced = builder.size_with(&new);
        builder
            .append_at((record.offset() - header.base_offset) as i32, &new)
            .unwrap();
        assert!(
            builder.size() >= announced,
            "a gap in the offsets can only make a record longer"
        );
    }
    let size = builder.size();
    let mut bytes = builder.finish().to_vec();
    assert_eq!(bytes.len(), size);
    // Compaction keeps header fields that do not follow from the remaining records.
    milena_wire::records::patch_header(&mut bytes, |patched| {
        patched.last_offset_delta = header.last_offset_delta;
        patched.base_timestamp = header.base_timestamp;
        patched.max_timestamp = header.max_timestamp;
    });
    Bytes::from(bytes)
}
