//! The rules of compaction, each test named after its rule.

use std::{path::Path, sync::Arc};

use milena_log::{
    CompactionLimits, Isolation, Log, LogConfig, Opening,
    disk::{Disk, MemoryDisk},
};
use milena_wire::{
    compression::Codec,
    records::{Attributes, Batch, BatchHeader, BatchOptions, ControlRecord, TimestampType},
};

use crate::{
    batches::{DIR, FRESH, end_of, open},
    fragile::FragileDisk,
    keyed::{Keyed, batches, committed, keyed},
};

const COMMIT: ControlRecord = ControlRecord::Commit { coordinator_epoch: 0 };
const ABORT: ControlRecord = ControlRecord::Abort { coordinator_epoch: 0 };
const DAY: i64 = 86_400_000;

fn config() -> LogConfig {
    LogConfig {
        compact: true,
        delete: false,
        segment_bytes: 1_000,
        index_interval_bytes: 200,
        ..LogConfig::default()
    }
}

fn fresh(config: &LogConfig) -> (MemoryDisk, Log) {
    let disk = MemoryDisk::crashable();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    (disk, open(&shared, config, FRESH))
}

fn put(log: &Log, key: &str, value: Option<&str>) -> i64 {
    put_with(log, &[Keyed::new(5, key, value)], BatchOptions::default())
}

fn put_with(log: &Log, records: &[Keyed], options: BatchOptions) -> i64 {
    let bytes = keyed(records, options, Codec::None);
    log.append(&bytes, 3, 0).unwrap().base_offset
}

fn transactional(producer_id: i64, base_sequence: i32) -> BatchOptions {
    BatchOptions {
        attributes: Attributes::default().with_transactional(true),
        producer_id,
        producer_epoch: 0,
        base_sequence,
        ..BatchOptions::default()
    }
}

/// Fills the segment that is written to with records that nothing outdates, so that all before can be compacted.
fn close_segment(log: &Log) {
    let end = log.view().log_end_offset;
    for i in 0..2 {
        put(log, &format!("filler {end} {i}"), Some(&"x".repeat(800)));
    }
    log.sync().unwrap();
}

fn compact(log: &Log, now_ms: i64) {
    log.compact(now_ms, CompactionLimits::default()).unwrap().unwrap();
}

fn values(log: &Log) -> Vec<(i64, String, Option<String>)> {
    let records = committed(&log.view(), log.view().log_start_offset, 1 << 20).into_iter();
    records
        .filter(|(_, record)| !record.key.starts_with("filler"))
        .map(|(offset, record)| (offset, record.key, record.value))
        .collect()
}

fn headers(log: &Log) -> Vec<BatchHeader> {
    let all = batches(&log.view(), 0, 1 << 20, Isolation::ReadUncommitted);
    let header = |batch: &Batch| match batch {
        Batch::V2(batch) => *batch.header(),
        Batch::Legacy(_) => unreachable!(),
    };
    all.iter().map(header).collect()
}

fn value(offset: i64, key: &str, value: &str) -> (i64, String, Option<String>) {
    (offset, key.to_owned(), Some(value.to_owned()))
}

#[test]
fn the_last_value_of_a_key_stays_at_its_offset() {
    let (_, log) = fresh(&config());
    for i in 0..30 {
        put(&log, ["a", "b", "c"][i % 3], Some(&format!("value {i}")));
    }
    close_segment(&log);
    compact(&log, 0);
    let expected = [
        value(27, "a", "value 27"),
        value(28, "b", "value 28"),
        value(29, "c", "value 29"),
    ];
    assert_eq!(values(&log), expected);
    assert_eq!(log.first_dirty_offset(), 31);
    assert_eq!(
        log.compact(0, CompactionLimits::default()).unwrap(),
        None,
        "nothing is new"
    );
}

#[test]
fn what_is_written_to_unsynced_open_or_young_is_left_alone() {
    let (_, log) = fresh(&LogConfig {
        min_compaction_lag_ms: 100,
        ..config()
    });
    let nothing = |log: &Log, now_ms| log.compact(now_ms, CompactionLimits::default()).unwrap().is_none();
    put(&log, "a", Some("1"));
    put(&log, "a", Some("2"));
    log.sync().unwrap();
    assert!(nothing(&log, 1_000), "written to");
    put(&log, "a", Some("3"));
    for _ in 0..2 {
        put(&log, "b", Some(&"x".repeat(800)));
    }
    assert!(nothing(&log, 1_000), "not synced");
    log.sync().unwrap();
    assert!(nothing(&log, 104), "too young");
    assert!(!nothing(&log, 105));

    let (_, log) = fresh(&config());
    put_with(&log, &[Keyed::new(5, "a", Some("1"))], transactional(9, 0));
    close_segment(&log);
    assert!(nothing(&log, 1_000), "open");
    log.append_marker(end_of(COMMIT, 9, 0), 3, 0).unwrap();
    assert!(nothing(&log, 1_000), "a power cut could open it again");
    log.sync().unwrap();
    assert!(!nothing(&log, 1_000));

    let (_, log) = fresh(&LogConfig {
        compact: false,
        ..config()
    });
    close_segment(&log);
    assert!(nothing(&log, 1_000), "not a compacted topic");
}

#[test]
fn a_batch_keeps_its_header_and_one_that_loses_nothing_its_bytes() {
    for codec in Codec::ALL {
        let (_, log) = fresh(&config());
        let options = BatchOptions {
            producer_id: 9,
            producer_epoch: 4,
            base_sequence: 70,
            ..BatchOptions::default()
        };
        let records: Vec<Keyed> = (0..6)
            .map(|i| Keyed::new(100 - i, &format!("key {i}"), Some("value")))
            .collect();
        log.append(&keyed(&records, options, codec), 3, 0).unwrap();
        let untouched = [Keyed::new(9, "other", Some("value"))];
        log.append(&keyed(&untouched, BatchOptions::default(), codec), 3, 0)
            .unwrap();
        for key in ["key 0", "key 5"] {
            put(&log, key, Some("new"));
        }
        let before = headers(&log);
        close_segment(&log);
        compact(&log, 0);
        let after = headers(&log);
        let rebuilt = BatchHeader {
            length: after[0].length,
            crc: after[0].crc,
            base_timestamp: 99,
            max_timestamp: 99,
            record_count: 4,
            ..before[0]
        };
        assert_eq!(after[0], rebuilt, "{codec}");
        assert_eq!(after[1], before[1], "{codec}");
        let timestamps: Vec<i64> = committed(&log.view(), 0, 100)
            .iter()
            .map(|(_, r)| r.timestamp)
            .collect();
        assert_eq!(timestamps[..5], [99, 98, 97, 96, 9], "{codec}");
    }
}

#[test]
fn with_log_append_time_the_latest_time_stays_that_of_the_batch() {
    let (_, log) = fresh(&LogConfig {
        timestamp_type: TimestampType::LogAppendTime,
        ..config()
    });
    let records = [Keyed::new(1, "a", None), Keyed::new(2, "b", None)];
    log.append(&keyed(&records, BatchOptions::default(), Codec::Zstd), 0, 777)
        .unwrap();
    log.append(&keyed(&records[..1], BatchOptions::default(), Codec::Zstd), 0, 778)
        .unwrap();
    close_segment(&log);
    compact(&log, 1_000);
    let header = headers(&log)[0];
    assert_eq!((header.record_count, header.max_timestamp), (1, 777));
    assert_eq!(header.delete_horizon_ms(), Some(1_000 + DAY));
    assert_eq!(committed(&log.view(), 0, 1)[0].1.timestamp, 777);
}

#[test]
fn tombstones_stay_for_their_time_after_the_first_compaction() {
    let (_, log) = fresh(&config());
    put(&log, "a", Some("1"));
    let records = [Keyed::new(5, "a", None), Keyed::new(7, "b", Some("2"))];
    put_with(&log, &records, BatchOptions::default());
    close_segment(&log);
    compact(&log, 10);
    let both = [(1, "a".to_owned(), None), value(2, "b", "2")];
    assert_eq!(values(&log), both);
    assert_eq!(headers(&log)[0].delete_horizon_ms(), Some(10 + DAY));
    assert_eq!(committed(&log.view(), 0, 1)[0].1.timestamp, 5);
    close_segment(&log);
    compact(&log, 9 + DAY);
    assert_eq!(values(&log), both);
    close_segment(&log);
    compact(&log, 10 + DAY);
    assert_eq!(values(&log), [value(2, "b", "2")]);
    assert_eq!(headers(&log)[0].delete_horizon_ms(), Some(10 + DAY));
    assert_eq!(committed(&log.view(), 0, 1)[0].1.timestamp, 7);
}

#[test]
fn aborted_records_go_and_markers_follow_when_nothing_needs_them() {
    let (_, log) = fresh(&config());
    put(&log, "a", Some("good"));
    for (i, marker) in [(0, ABORT), (1, COMMIT), (2, COMMIT)] {
        let records = [Keyed::new(5, ["a", "b", "b"][i as usize], Some("in transaction"))];
        put_with(&log, &records, transactional(9, i));
        log.append_marker(end_of(marker, 9, 0), 3, 0).unwrap();
    }
    close_segment(&log);
    let markers = |log: &Log| -> Vec<i64> {
        let control = headers(log).into_iter().filter(|header| header.attributes.is_control());
        control.map(|header| header.base_offset).collect()
    };
    assert_eq!(log.view().aborted_transactions(0, 100).unwrap().len(), 1);
    let expected = [value(0, "a", "good"), value(5, "b", "in transaction")];

    compact(&log, 10);
    assert_eq!(
        (values(&log), markers(&log)),
        (expected.to_vec(), vec![2, 4, 6]),
        "the data was there"
    );
    close_segment(&log);
    compact(&log, 20);
    assert_eq!(log.view().aborted_transactions(0, 100).unwrap(), []);
    let horizon = |log: &Log| headers(log)[1].delete_horizon_ms();
    assert_eq!(
        (markers(&log), horizon(&log)),
        (vec![2, 4, 6], Some(20 + DAY)),
        "their time begins"
    );
    close_segment(&log);
    compact(&log, 20 + DAY);
    assert_eq!((values(&log), markers(&log)), (expected.to_vec(), vec![6]));
}

#[test]
fn the_last_batch_of_a_producer_stays_without_records() {
    let (disk, log) = fresh(&config());
    let options = BatchOptions {
        producer_id: 9,
        producer_epoch: 2,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    let bytes = keyed(
        &[Keyed::new(5, "a", Some("1")), Keyed::new(6, "b", Some("1"))],
        options,
        Codec::Lz4,
    );
    log.append(&bytes, 3, 0).unwrap();
    put(&log, "a", Some("2"));
    put(&log, "b", Some("2"));
    close_segment(&log);
    compact(&log, 0);
    let header = headers(&log)[0];
    assert_eq!(
        (header.record_count, header.last_offset(), header.last_sequence()),
        (0, 1, 1)
    );
    for entry in disk.list(Path::new(DIR)).unwrap() {
        if entry.name.ends_with(".snapshot") {
            disk.remove(&Path::new(DIR).join(entry.name)).unwrap();
        }
    }
    let shared: Arc<dyn Disk> = Arc::new(disk);
    let log = open(&shared, &config(), FRESH);
    let again = log.append(&bytes, 3, 0).unwrap();
    assert_eq!((again.base_offset, again.duplicate), (0, true));
    // An expired producer needs nothing.
    log.expire_producers(DAY, 1);
    log.set_first_dirty_offset(0);
    log.compact(0, CompactionLimits::default()).unwrap().unwrap();
    assert_eq!(headers(&log)[0].base_offset, 2);
}

#[test]
fn a_full_map_ends_the_round_and_the_next_goes_on() {
    let (_, log) = fresh(&config());
    for i in 0..200 {
        put(&log, &format!("key {}", i % 50), Some(&format!("value {i}")));
    }
    close_segment(&log);
    let limits = CompactionLimits { map_bytes_max: 24 * 40 };
    let mut ends = vec![];
    while let Some(stats) = log.compact(0, limits).unwrap() {
        ends.push(stats.first_dirty_offset);
    }
    assert!(ends.len() > 5 && ends.is_sorted(), "{ends:?}");
    let expected: Vec<_> = (150..200)
        .map(|i| value(i, &format!("key {}", i % 50), &format!("value {i}")))
        .collect();
    assert_eq!(values(&log), expected);
}

#[test]
fn a_batch_with_more_keys_than_the_map_may_have_is_compacted_all_the_same() {
    let (_, log) = fresh(&LogConfig {
        segment_bytes: 20_000,
        ..config()
    });
    let many: Vec<Keyed> = (0..300)
        .map(|i| Keyed::new(5, &format!("key {i}"), Some("value")))
        .collect();
    for _ in 0..2 {
        put_with(&log, &many, BatchOptions::default());
    }
    put(&log, "filler", Some(&"x".repeat(19_000)));
    log.sync().unwrap();
    let limits = CompactionLimits { map_bytes_max: 0 };
    while log.compact(0, limits).unwrap().is_some() {}
    assert_eq!(values(&log).len(), 300);
}

#[test]
fn batches_larger_than_what_is_read_at_once_are_compacted_too() {
    let (_, log) = fresh(&LogConfig {
        segment_bytes: 4 << 20,
        max_message_bytes: 8 << 20,
        ..config()
    });
    let sizes = [10, 300_000, 700_000, 20, 1_500_000, 300_000];
    for (place, size) in sizes.into_iter().enumerate() {
        put(&log, ["a", "b"][place % 2], Some(&"x".repeat(size)));
    }
    put(&log, "filler", Some(&"x".repeat(4_100_000)));
    close_segment(&log);
    compact(&log, 0);
    let lengths = values(&log)
        .into_iter()
        .map(|(offset, key, value)| (offset, key, value.unwrap().len()));
    let expected = [(4, "a".to_owned(), 1_500_000), (5, "b".to_owned(), 300_000)];
    assert_eq!(lengths.collect::<Vec<_>>(), expected);
}

#[test]
fn small_segments_become_one() {
    let (disk, log) = fresh(&config());
    let segments = |disk: &MemoryDisk| {
        let names = disk.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".log")).count()
    };
    for i in 0..100 {
        put(&log, ["a", "b"][i % 2], Some(&"value".repeat(10)));
    }
    close_segment(&log);
    let before = segments(&disk);
    for _ in 0..6 {
        compact(&log, 0);
        close_segment(&log);
    }
    // Six that hold a filler each came after those that were joined.
    assert!(before > 15 && segments(&disk) < 16, "{before} then {}", segments(&disk));
}

#[test]
fn the_dirtiest_log_is_known_without_reading() {
    let (_, log) = fresh(&LogConfig {
        max_compaction_lag_ms: 1_000,
        segment_ms: 1_000,
        ..config()
    });
    assert_eq!((log.dirtiness(0).ratio, log.dirtiness(0).due), (0.0, false));
    for _ in 0..3 {
        close_segment(&log);
    }
    assert_eq!((log.dirtiness(0).ratio, log.dirtiness(0).due), (1.0, true));
    compact(&log, 0);
    assert_eq!((log.dirtiness(0).ratio, log.dirtiness(0).due), (0.0, false));
    close_segment(&log);
    let dirtiness = log.dirtiness(0);
    assert!(dirtiness.ratio > 0.1 && !dirtiness.due, "{dirtiness:?}");
    assert!(log.dirtiness(1_006).due, "it waits for too long");
}

#[test]
fn who_reads_meanwhile_finds_what_was_there() {
    let (_, log) = fresh(&config());
    for i in 0..40 {
        put_with(&log, &[Keyed::new(5, "a", Some("void"))], transactional(9, i));
        log.append_marker(end_of(ABORT, 9, 0), 3, 0).unwrap();
        put(&log, ["a", "b"][i as usize % 2], Some("value"));
    }
    close_segment(&log);
    let view = log.view();
    let all = committed(&view, 0, 300);
    for now_ms in [10, 20, 30 + DAY] {
        compact(&log, now_ms);
        close_segment(&log);
        assert_eq!(committed(&view, 0, 300), all);
        assert_eq!(committed(&view, 60, 300)[..], all[20..]);
    }
    assert_eq!(values(&log).len(), 2);
}

/// A message of format 1, as brokers of long ago wrote it.
fn old_message(offset: i64, timestamp: i64, key: &str, value: Option<&str>) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&(bytes.len() as i32).to_be_bytes(), bytes].concat();
    let body = [
        vec![1, 0],
        timestamp.to_be_bytes().to_vec(),
        sized(key.as_bytes()),
        value.map_or_else(|| vec![0xff; 4], |value| sized(value.as_bytes())),
    ]
    .concat();
    let step = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let crc = !body
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step));
    let message = [&crc.to_be_bytes()[..], &body].concat();
    [&offset.to_be_bytes()[..], &sized(&message)].concat()
}

#[test]
fn messages_of_old_formats_are_written_anew_where_something_goes() {
    let disk = MemoryDisk::new();
    disk.create_dir(Path::new(DIR)).unwrap();
    let messages = [
        old_message(0, 70, "a", Some("old")),
        old_message(1, 71, "b", None),
        old_message(2, 72, "a", Some("new")),
    ];
    let path = Path::new(DIR).join("00000000000000000000.log");
    milena_log::disk::replace_file(&disk, &path, &messages.concat()).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = open(&shared, &config(), FRESH);
    assert_eq!(log.view().log_end_offset, 3);
    close_segment(&log);
    compact(&log, 10);
    let written = milena_log::disk::read_file(&disk, &path).unwrap();
    // The tombstone has a horizon now, which only format 2 can store; the value is unchanged.
    let mut kept = milena_wire::records::Batches::new(written.into());
    let Some(Ok(Batch::V2(tombstone))) = kept.next() else {
        panic!("the tombstone comes first")
    };
    assert_eq!(tombstone.header().base_offset, 1);
    assert_eq!(tombstone.header().max_timestamp, 71);
    assert_eq!(tombstone.header().delete_horizon_ms(), Some(10 + DAY));
    assert_eq!(kept.next().unwrap().unwrap().bytes()[..], messages[2]);
}

/// A log with values, aborted transactions and a few segments; and the last value of each key.
fn prepare() -> (MemoryDisk, Vec<(i64, String, Option<String>)>) {
    let (disk, log) = fresh(&config());
    for i in 0..30 {
        put(&log, ["a", "b", "c"][i % 3], Some(&"value".repeat(i % 7)));
        put_with(&log, &[Keyed::new(5, "a", Some("void"))], transactional(9, i as i32));
        log.append_marker(end_of(ABORT, 9, 0), 3, 0).unwrap();
    }
    close_segment(&log);
    log.close().unwrap();
    let last = values(&log)[27..].to_vec();
    (disk, last)
}

/// The process dies, or the power is cut, after each disk operation in turn.
#[test]
fn a_crash_at_any_point_leaves_the_old_or_the_new() {
    let (prepared, last) = prepare();
    for power_cut in [false, true] {
        let mut operations = 0;
        while !crash_after(operations, &prepared, &last, power_cut) {
            operations += 1;
        }
        assert!(operations > 50, "{operations}");
    }
}

/// Returns whether compaction was complete before the crash.
fn crash_after(
    operations: usize,
    prepared: &MemoryDisk,
    last: &[(i64, String, Option<String>)],
    power_cut: bool,
) -> bool {
    // A power cut that everything survives makes a copy.
    let disk = FragileDisk::new(prepared.after_power_cut(|outcomes| outcomes - 1));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let log = open(&shared, &config(), FRESH);
    let end = log.view().log_end_offset;
    disk.break_after(operations);
    let done = log.compact(0, CompactionLimits::default());
    let now = values(&log);
    assert_eq!(
        now[now.len() - 3..],
        *last,
        "in the same process, after {operations} operations"
    );
    if operations.is_multiple_of(2) {
        // Trying again in the same process must not make it worse.
        disk.break_after(usize::MAX);
        let again = log.compact(0, CompactionLimits::default()).unwrap();
        assert_eq!(again.is_some(), done.is_err());
    }
    let after = match power_cut {
        true => disk.inner.after_power_cut(|outcomes| outcomes / 2),
        false => disk.inner.clone(),
    };
    let shared: Arc<dyn Disk> = Arc::new(after);
    let opening = Opening {
        clean: false,
        recovery_point: 20,
        log_start_offset: 0,
        known: None,
        accept_loss: false,
    };
    let log = open(&shared, &config(), opening);
    let values = values(&log);
    assert_eq!(log.view().log_end_offset, end, "after {operations} operations");
    assert_eq!(values[values.len() - 3..], *last, "after {operations} operations");
    assert!(values.len() == 3 || done.is_err());
    let names = shared.list(Path::new(DIR)).unwrap().into_iter().map(|entry| entry.name);
    let unfinished = [".cleaned", ".swap", ".tmp", ".deleted"];
    let leftovers: Vec<String> = names
        .filter(|name| unfinished.iter().any(|ending| name.ends_with(ending)))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
    done.is_ok()
}
