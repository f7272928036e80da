//! Record data in the words of the golden vectors, as our reader sees it.

use std::fmt::Write as _;

use bytes::Bytes;
use milena_wire::{
    pool::BufferPool,
    records::{Batch, Batches, RecordDecoder, RecordSet, TimestampType},
};

/// The decoded bytes as text, in the notation of the vectors.
pub fn describe(bytes: &Bytes) -> String {
    let mut text = String::new();
    let mut decoder = RecordDecoder::new(BufferPool::new(1 << 20), 1 << 24);
    let mut set = RecordSet::default();
    let mut batches = Batches::new(bytes.clone());
    for batch in batches.by_ref() {
        let batch = batch.unwrap();
        batch.verify().unwrap();
        batch.decode_into(&mut decoder, &mut set).unwrap();
        describe_batch(&mut text, &batch, &set);
        for record in set.iter() {
            let headers: Vec<String> = record
                .headers()
                .map(|header| format!("{}={}", hex(Some(header.key)), hex(header.value)))
                .collect();
            let _ = writeln!(
                text,
                "record {} {} {} {} {} {}",
                record.offset(),
                record.timestamp(),
                type_name(record.timestamp_type()),
                hex(record.key()),
                hex(record.value()),
                if headers.is_empty() {
                    ".".to_owned()
                } else {
                    headers.join(",")
                }
            );
        }
    }
    assert_eq!(batches.leftover(), 0);
    text
}

fn describe_batch(text: &mut String, batch: &Batch, set: &RecordSet) {
    let Batch::V2(batch) = batch else {
        return;
    };
    let header = batch.header();
    let attributes = header.attributes;
    let horizon = header
        .delete_horizon_ms()
        .map_or_else(|| "-".to_owned(), |horizon| horizon.to_string());
    let _ = writeln!(
        text,
        "batch 2 {} {} {} {} {} {} {} {} {} {} {} {} {} {horizon}",
        header.base_offset,
        header.last_offset(),
        header.partition_leader_epoch,
        header.max_timestamp,
        type_name(attributes.timestamp_type()),
        attributes.codec().unwrap(),
        attributes.is_transactional(),
        attributes.is_control(),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.last_sequence(),
        set.len(),
    );
}

fn type_name(timestamp_type: TimestampType) -> &'static str {
    match timestamp_type {
        TimestampType::None => "NO_TIMESTAMP_TYPE",
        TimestampType::CreateTime => "CREATE_TIME",
        TimestampType::LogAppendTime => "LOG_APPEND_TIME",
    }
}

fn hex(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "-".to_owned(),
        Some([]) => "0x".to_owned(),
        Some(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}
