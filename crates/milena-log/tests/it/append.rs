//! The rules of Produce that concern the log, each test named after its rule.

use std::sync::Arc;

use bytes::Bytes;
use milena_log::{
    AppendError, EndMarker, InvalidBatch, Log, LogConfig, RecordProblem, RejectedRecord, RejectedRecords,
    disk::{Disk, MemoryDisk},
};
use milena_wire::{
    compression::{Codec, Compression, Compressor},
    errors::ErrorCode,
    records::{
        Attributes, Batch, BatchBuilder, BatchHeader, BatchOptions, Batches, ControlRecord, HEADER_SIZE, NewRecord,
        TimestampType, patch_header,
    },
};
use twox_hash::XxHash32;

use crate::batches::{FRESH, Plain, batch, batch_with, end_of, open, read_all, sequenced};

fn log(config: LogConfig) -> Log {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    open(&disk, &config, FRESH)
}

fn refused(log: &Log, records: &Bytes) -> ErrorCode {
    log.append(records, 0, 1_000).unwrap_err().error_code()
}

fn good() -> Bytes {
    batch(&[Plain::new(1, "a"), Plain::new(2, "b")])
}

fn patched(change: impl FnOnce(&mut BatchHeader)) -> Bytes {
    let mut bytes = good().to_vec();
    patch_header(&mut bytes, change);
    bytes.into()
}

#[test]
fn a_partition_takes_exactly_one_batch() {
    let log = log(LogConfig::default());
    let two = Bytes::from([&good()[..], &good()[..]].concat());
    assert_eq!(refused(&log, &two), ErrorCode::InvalidRecord);
    assert_eq!(refused(&log, &Bytes::new()), ErrorCode::InvalidRecord);
    let cut = good().slice(..good().len() - 1);
    assert_eq!(refused(&log, &cut), ErrorCode::InvalidRecord);
}

#[test]
fn a_batch_is_no_larger_than_the_topic_allows() {
    let size = good().len() as u32;
    let limits = |max_message_bytes, segment_bytes| {
        let config = LogConfig {
            max_message_bytes,
            segment_bytes,
            ..LogConfig::default()
        };
        log(config)
            .append(&good(), 0, 1_000)
            .map_err(|error| error.error_code())
    };
    assert!(limits(size, size).is_ok());
    assert_eq!(limits(size - 1, size).unwrap_err(), ErrorCode::MessageTooLarge);
    assert_eq!(limits(size, size - 1).unwrap_err(), ErrorCode::RecordListTooLarge);
}

#[test]
fn a_wrong_checksum_is_a_corrupt_message() {
    let mut bytes = good().to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(
        refused(&log(LogConfig::default()), &bytes.into()),
        ErrorCode::CorruptMessage
    );
}

#[test]
fn a_header_that_a_producer_may_not_write_is_an_invalid_record() {
    let log = log(LogConfig::default());
    let bad = [
        patched(|header| header.base_offset = 5),
        patched(|header| header.last_offset_delta = 7),
        patched(|header| header.record_count = 0),
        patched(|header| header.attributes = Attributes::default().with_control(true)),
        patched(|header| header.producer_id = 3),
        patched(|header| header.attributes = Attributes(7)),
    ];
    for records in &bad {
        assert_eq!(refused(&log, records), ErrorCode::InvalidRecord);
    }
    let appended_time = patched(|header| {
        header.attributes = Attributes::default().with_timestamp_type(TimestampType::LogAppendTime);
    });
    assert_eq!(refused(&log, &appended_time), ErrorCode::InvalidTimestamp);
}

#[test]
fn a_timestamp_too_far_ahead_or_behind_is_refused() {
    let config = LogConfig {
        timestamp_after_max_ms: 10,
        timestamp_before_max_ms: 100,
        ..LogConfig::default()
    };
    let log = log(config);
    let at = |timestamp| {
        log.append(&batch(&[Plain::new(timestamp, "a")]), 0, 1_000)
            .map_err(|error| error.error_code())
    };
    assert_eq!(at(1_011).unwrap_err(), ErrorCode::InvalidTimestamp);
    assert!(at(1_010).is_ok());
    assert!(at(900).is_ok());
    assert_eq!(at(899).unwrap_err(), ErrorCode::InvalidTimestamp);
}

#[test]
fn a_compacted_topic_needs_keys() {
    let log = log(LogConfig {
        compact: true,
        ..LogConfig::default()
    });
    assert!(log.append(&good(), 0, 1_000).is_ok());
    let rejected = rejected(&log, &keyed(&[(true, 0), (false, 0), (true, 0), (false, 0)]));
    assert_eq!(rejected.error_code(), ErrorCode::InvalidRecord);
    let no_key = |index| RejectedRecord {
        index,
        problem: RecordProblem::NoKey,
    };
    assert_eq!(records_of(&rejected).first, [no_key(1), no_key(3)]);
    assert!(
        rejected.to_string().contains("because of 2 of its records"),
        "{rejected}"
    );
}

/// A batch of records that have a key or not, and this timestamp.
fn keyed(records: &[(bool, i64)]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for (has_key, timestamp) in records {
        let record = NewRecord {
            timestamp: *timestamp,
            key: has_key.then_some(b"k"),
            ..NewRecord::default()
        };
        builder.append(&record).unwrap();
    }
    builder.finish()
}

fn rejected(log: &Log, records: &Bytes) -> InvalidBatch {
    match log.append(records, 0, 1_000) {
        Err(AppendError::Invalid(invalid)) => invalid,
        outcome => panic!("{outcome:?}"),
    }
}

fn records_of(invalid: &InvalidBatch) -> &RejectedRecords {
    match invalid {
        InvalidBatch::Records(records) => records,
        invalid => panic!("{invalid}"),
    }
}

#[test]
fn all_bad_records_are_named_and_one_bad_timestamp_decides_the_error() {
    let log = log(LogConfig {
        compact: true,
        timestamp_before_max_ms: 100,
        timestamp_after_max_ms: 10,
        ..LogConfig::default()
    });
    let records = [
        (true, 1_000),
        (false, 5_000),
        (true, 899),
        (true, 1_011),
        (true, -1),
        (true, 900),
    ];
    let rejected = rejected(&log, &keyed(&records));
    assert_eq!(rejected.error_code(), ErrorCode::InvalidTimestamp);
    let out_of_range = |timestamp| RecordProblem::Timestamp {
        timestamp,
        earliest: 900,
        latest: 1_010,
    };
    let expected = [
        (1, RecordProblem::NoKey),
        (2, out_of_range(899)),
        (3, out_of_range(1_011)),
    ];
    let named = records_of(&rejected).first.iter();
    assert!(
        named.map(|record| (record.index, record.problem)).eq(expected),
        "{rejected}"
    );
}

#[test]
fn a_timestamp_too_far_ahead_is_looked_for_only_if_the_header_says_that_there_is_one() {
    let log = log(LogConfig {
        timestamp_after_max_ms: 10,
        ..LogConfig::default()
    });
    let ahead = rejected(&log, &keyed(&[(false, 1_000), (false, 1_011)]));
    assert_eq!(records_of(&ahead).first[0].index, 1);
    let claimed = rejected(&log, &patched(|header| header.max_timestamp = 1_011));
    let expected = InvalidBatch::Timestamp {
        timestamp: 1_011,
        latest: 1_010,
    };
    assert_eq!(claimed, expected);
}

#[test]
fn of_very_many_bad_records_the_first_are_named_and_all_are_counted() {
    let log = log(LogConfig {
        compact: true,
        timestamp_before_max_ms: 100,
        ..LogConfig::default()
    });
    let mut records = vec![(false, 1_000); 5_000];
    records.push((true, 0));
    let rejected = rejected(&log, &keyed(&records));
    let (count, named) = (records_of(&rejected).count, records_of(&rejected).first.len());
    assert_eq!((count, named), (5_001, 1_000));
    assert_eq!(rejected.error_code(), ErrorCode::InvalidTimestamp);
    assert!(
        rejected
            .to_string()
            .contains("5001 of its records, of which 1000 are listed"),
        "{rejected}"
    );
}

#[test]
fn what_kafkas_readers_could_not_decompress_is_refused_unread() {
    let log = log(LogConfig::default());
    // Plain records that claim to be compressed. For snappy they could be: that may begin with almost anything.
    for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
        let claimed = patched(|header| header.attributes = header.attributes.with_codec(codec));
        let refused = rejected(&log, &claimed);
        assert!(matches!(refused, InvalidBatch::Unreadable(_)), "{codec}: {refused}");
        assert_eq!(refused.error_code(), ErrorCode::InvalidRecord);
    }
    let mut compressor = Compressor::new(Compression::from(Codec::Lz4));
    let mut builder = BatchBuilder::new(BatchOptions::default());
    builder.append(&NewRecord::default()).unwrap();
    let mut linked = builder.finish_compressed(&mut compressor).unwrap().0.to_vec();
    log.append(&linked.clone().into(), 0, 1_000).unwrap();
    // Blocks that may refer to each other: a bit of the frame's header, which has a checksum.
    const FLAGS: usize = HEADER_SIZE + 4;
    linked[FLAGS] &= !0x20;
    let [_, checksum, ..] = XxHash32::oneshot(0, &linked[FLAGS..FLAGS + 2]).to_le_bytes();
    linked[FLAGS + 2] = checksum;
    // Any change recomputes the checksum of the batch.
    patch_header(&mut linked, |header| header.max_timestamp = 1);
    let refused = rejected(&log, &linked.into());
    assert!(
        refused.to_string().contains("blocks that refer to each other"),
        "{refused}"
    );
}

#[test]
fn log_append_time_is_the_brokers_for_every_record() {
    let log = log(LogConfig {
        timestamp_type: TimestampType::LogAppendTime,
        ..LogConfig::default()
    });
    let appended = log.append(&good(), 0, 777).unwrap();
    assert_eq!(appended.log_append_time_ms, 777);
    assert!(
        read_all(&log.view(), 0, 1 << 20)
            .iter()
            .all(|(_, record)| record.timestamp == 777)
    );
    let times = log.view().offset_for_time(777).unwrap().unwrap();
    assert_eq!((times.offset, times.timestamp), (0, 777));
}

#[test]
fn offsets_and_epoch_are_the_brokers_and_nothing_else_changes() {
    let log = log(LogConfig::default());
    log.append(&good(), 5, 1_000).unwrap();
    log.append(&good(), 5, 1_000).unwrap();
    let slice = log
        .view()
        .read(2, 1 << 20, milena_log::Isolation::ReadUncommitted)
        .unwrap()
        .unwrap();
    let mut expected = good().to_vec();
    patch_header(&mut expected, |header| {
        header.base_offset = 2;
        header.partition_leader_epoch = 5;
    });
    assert_eq!(slice.read().unwrap(), expected);
}

#[test]
fn a_refused_batch_leaves_no_trace() {
    let log = log(LogConfig::default());
    log.append(&sequenced(&[Plain::new(1, "a")], 7, 0), 0, 0).unwrap();
    let error = log.append(&sequenced(&[Plain::new(1, "a")], 7, 5), 0, 0).unwrap_err();
    assert_eq!(error.error_code(), ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(log.view().log_end_offset, 1);
    assert_eq!(log.producers().get(7).unwrap().last_sequence(), Some(0));
}

#[test]
fn an_open_transaction_hides_what_follows_from_readers_of_committed_records() {
    let log = log(LogConfig::default());
    log.append(&good(), 0, 0).unwrap();
    let transactional = BatchOptions {
        attributes: Attributes::default().with_transactional(true),
        producer_id: 7,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    log.append(&batch_with(&[Plain::new(1, "a")], transactional), 0, 0)
        .unwrap();
    log.append(&good(), 0, 0).unwrap();
    let view = log.view();
    assert_eq!((view.last_stable_offset, view.high_watermark), (2, 5));
    let slice = view
        .read(0, 1 << 20, milena_log::Isolation::ReadCommitted)
        .unwrap()
        .unwrap();
    assert_eq!(slice.len, good().len());
    assert!(
        view.read(2, 1 << 20, milena_log::Isolation::ReadCommitted)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_topic_with_a_codec_of_its_own_recompresses_and_keeps_all_else() {
    let options = BatchOptions {
        producer_id: 7,
        producer_epoch: 1,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let sent = batch_with(&[Plain::new(5, &"worth it ".repeat(50)), Plain::new(3, "b")], options);
    for codec in Codec::ALL {
        let log = log(LogConfig {
            compression: Some(Compression::from(codec)),
            ..LogConfig::default()
        });
        log.append(&sent, 0, 1_000).unwrap();
        let view = log.view();
        let slice = view
            .read(0, 1 << 20, milena_log::Isolation::ReadUncommitted)
            .unwrap()
            .unwrap();
        let Some(Ok(Batch::V2(stored))) = Batches::new(slice.read().unwrap()).next() else {
            panic!("no batch");
        };
        let header = stored.header();
        assert_eq!(header.attributes.codec(), Ok(codec));
        assert_eq!(
            (header.producer_id, header.producer_epoch, header.base_sequence),
            (7, 1, 0)
        );
        assert_eq!(header.max_timestamp, 5);
        let expected = [(0, Plain::new(5, &"worth it ".repeat(50))), (1, Plain::new(3, "b"))];
        assert_eq!(read_all(&view, 0, 1 << 20), expected);
        assert!(log.append(&sent, 0, 1_000).unwrap().duplicate);
    }
}

#[test]
fn a_batch_that_decompresses_to_far_more_than_may_be_sent_is_refused() {
    let bomb = |size: usize| {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        let record = NewRecord {
            timestamp: 5,
            key: Some(b"key"),
            value: Some(&vec![0; size]),
            headers: &[],
        };
        builder.append(&record).unwrap();
        let mut compressor = Compressor::new(Compression::from(Codec::Zstd));
        builder.finish_compressed(&mut compressor).unwrap().0
    };
    let compacted = log(LogConfig {
        compact: true,
        ..LogConfig::default()
    });
    compacted.append(&bomb(60 << 20), 0, 1_000).unwrap();
    let bomb = bomb(65 << 20);
    let refused = compacted.append(&bomb, 0, 1_000).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::MessageTooLarge);
    assert!(
        refused.to_string().contains("decompresses to more than 67109632 bytes"),
        "{refused}"
    );
    let recompressing = log(LogConfig {
        compression: Some(Compression::from(Codec::Gzip)),
        ..LogConfig::default()
    });
    let refused = recompressing.append(&bomb, 0, 1_000).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::MessageTooLarge);
    // A larger limit for messages is a larger limit for their content.
    let larger = log(LogConfig {
        compact: true,
        max_message_bytes: 2 << 20,
        ..LogConfig::default()
    });
    larger.append(&bomb, 0, 1_000).unwrap();
    // Nothing is decompressed unless a check needs it; a search by time then finds the batch, not the record.
    let stored = log(LogConfig::default());
    stored.append(&bomb, 0, 1_000).unwrap();
    let found = stored.view().offset_for_time(5).unwrap().unwrap();
    assert_eq!((found.offset, found.timestamp), (0, 5));
    let latest = stored.view().latest_record().unwrap().unwrap();
    assert_eq!((latest.offset, latest.timestamp), (0, 5));
    assert!(stored.view().offset_for_time(6).unwrap().is_none());
}

#[test]
fn producers_beyond_the_limit_are_refused_unless_others_were_idle_for_long() {
    let log = log(LogConfig {
        producers_max: 2,
        ..LogConfig::default()
    });
    let append = |producer_id, now_ms: i64| {
        let options = BatchOptions {
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        let record = NewRecord {
            timestamp: now_ms,
            key: None,
            value: Some(b"x"),
            headers: &[],
        };
        builder.append(&record).unwrap();
        log.append(&builder.finish(), 0, now_ms)
    };
    append(1, 0).unwrap();
    append(2, 300_000).unwrap();
    let refused = append(3, 500_000).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::PolicyViolation);
    assert!(
        refused.to_string().contains("milena.max.producers.per.partition"),
        "{refused}"
    );
    // The first has been silent for ten minutes: it gives up its place.
    append(3, 700_000).unwrap();
    append(4, 700_000).unwrap_err();
}

#[test]
fn segments_are_closed_earlier_by_chance_but_never_later() {
    let closed_at = |age: i64, segment_jitter_ms: i64| {
        let logs = (0..40).filter(|partition| {
            let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
            let config = LogConfig {
                segment_ms: 1_000,
                segment_jitter_ms,
                ..LogConfig::default()
            };
            let dir = format!("/data/letters-{partition}");
            let log = Log::open(Arc::clone(&disk), dir.as_ref(), config, FRESH).unwrap();
            for timestamp in [10_000, 10_000 + age] {
                log.append(&batch(&[Plain::new(timestamp, "a")]), 0, 11_000).unwrap();
            }
            let names = disk.list(dir.as_ref()).unwrap();
            names.iter().filter(|entry| entry.name.ends_with(".log")).count() == 2
        });
        logs.count()
    };
    assert_eq!([closed_at(1_000, 0), closed_at(1_001, 0)], [0, 40]);
    assert_eq!([closed_at(100, 800), closed_at(1_001, 800)], [0, 40]);
    let half_way = closed_at(600, 800);
    assert!((5..=35).contains(&half_way), "{half_way} of 40");
}

#[test]
fn a_marker_with_a_new_epoch_ends_what_the_old_one_wrote() {
    let log = log(LogConfig::default());
    let of_epoch = |producer_epoch, base_sequence| {
        let options = BatchOptions {
            attributes: Attributes::default().with_transactional(true),
            producer_id: 9,
            producer_epoch,
            base_sequence,
            ..BatchOptions::default()
        };
        batch_with(&[Plain::new(1, "a")], options)
    };
    log.append(&of_epoch(0, 0), 0, 0).unwrap();
    assert!(log.has_open_transaction(9, 0));
    let commit = ControlRecord::Commit { coordinator_epoch: 0 };
    let end = EndMarker {
        has_new_epoch: true,
        ..end_of(commit, 9, 1)
    };
    log.append_marker(end, 0, 0).unwrap();
    assert!(!log.has_open_transaction(9, 1));
    let refused = log.append(&of_epoch(0, 1), 0, 0).unwrap_err();
    assert_eq!(refused.error_code(), ErrorCode::InvalidProducerEpoch);
    log.append(&of_epoch(1, 0), 0, 0).unwrap();
    let late = log.append_marker(end, 0, 0).unwrap_err();
    assert_eq!(late.error_code(), ErrorCode::InvalidProducerEpoch);
    assert!(log.has_open_transaction(9, 1));
}
