//! When the disk misbehaves, and how segments come and go.

use std::sync::Arc;

use bytes::Bytes;
use milena_log::{
    Durability, Isolation, Log, LogConfig, StorageError,
    disk::{Disk, MemoryDisk, RealDisk},
};
use milena_wire::records::{Attributes, BatchOptions, ControlRecord, patch_header};

use crate::batches::{DIR, FRESH, KILLED, Plain, batch, batch_with, end_of, open, read_all, sequenced};

fn records(count: usize) -> Vec<Plain> {
    (0..count)
        .map(|i| Plain::new(i as i64, "a value of some length"))
        .collect()
}

#[test]
fn a_full_disk_refuses_writes_keeps_reads_and_recovers() {
    let memory = MemoryDisk::crashable();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let log = open(&disk, &LogConfig::default(), FRESH);
    log.append(&batch(&records(3)), 0, 0).unwrap();
    memory.set_room(Some(10));
    let error = log.append(&batch(&records(3)), 0, 0).unwrap_err();
    assert!(error.to_string().contains("no space left"), "{error}");
    assert_eq!(read_all(&log.view(), 0, 1 << 20).len(), 3);
    memory.set_room(None);
    assert_eq!(log.append(&batch(&records(3)), 0, 0).unwrap().base_offset, 3);
    assert_eq!(read_all(&log.view(), 0, 1 << 20).len(), 6);
}

/// Appends a batch to a disk that has only `room` bytes left, and checks the file afterwards.
fn append_to_full_disk(memory: &MemoryDisk, log: &Log, records: &Bytes, room: usize) {
    memory.set_room(Some(room as u64));
    let error = log.append(records, 0, 0).unwrap_err();
    assert!(error.to_string().contains("no space left"), "{error}");
    memory.set_room(None);
}

#[test]
fn what_a_full_disk_took_of_a_batch_is_never_read_as_records() {
    let memory = MemoryDisk::crashable();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let log = open(&disk, &LogConfig::default(), FRESH);
    log.append(&batch(&records(1)), 0, 0).unwrap();
    let short = batch(&records(1));
    // A value that holds a whole batch, just where the short one will end, with the offset that would come next.
    let mut hidden = batch(&records(1)).to_vec();
    patch_header(&mut hidden, |header| header.base_offset = 2);
    let around = |padding: usize| {
        let value = [vec![b'-'; padding], hidden.clone(), vec![b'-'; 500]].concat();
        let record = Plain { timestamp: 0, value };
        batch(&[record])
    };
    let place_in = |sent: &Bytes| sent.windows(hidden.len()).position(|window| window == hidden).unwrap();
    let padding = short.len() - place_in(&around(0));
    let sent = around(padding);
    assert_eq!(place_in(&sent), short.len());
    append_to_full_disk(&memory, &log, &sent, short.len() + hidden.len());
    assert_eq!(log.append(&short, 0, 0).unwrap().base_offset, 1);
    let expected = read_all(&log.view(), 0, 1 << 20);
    assert_eq!(expected.len(), 2);
    drop(log);
    assert_eq!(
        read_all(&open(&disk, &LogConfig::default(), KILLED).view(), 0, 1 << 20),
        expected
    );
}

#[test]
fn what_follows_a_full_disk_survives_a_restart() {
    let memory = MemoryDisk::crashable();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    // The failing batch would still fit into the first segment, the next one does not.
    let config = LogConfig {
        segment_bytes: (batch(&records(2)).len() + batch(&records(3)).len()) as u32,
        ..LogConfig::default()
    };
    for opening in [FRESH, KILLED] {
        let log = open(&disk, &config, opening);
        let before = log.view().log_end_offset;
        log.append(&batch(&records(2)), 0, 0).unwrap();
        append_to_full_disk(&memory, &log, &batch(&records(3)), 100);
        for _ in 0..5 {
            log.append(&batch(&records(4)), 0, 0).unwrap();
        }
        if opening.clean {
            log.close().unwrap();
        }
        let expected = read_all(&log.view(), 0, 1 << 20);
        assert_eq!(log.view().log_end_offset - before, 22);
        drop(log);
        let log = open(&disk, &config, opening);
        assert_eq!(read_all(&log.view(), 0, 1 << 20), expected);
    }
}

#[test]
fn a_batch_that_is_refused_because_an_epoch_cannot_be_written_is_not_in_the_log() {
    let memory = MemoryDisk::crashable();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let log = open(&disk, &LogConfig::default(), FRESH);
    log.append(&sequenced(&records(1), 7, 0), 0, 0).unwrap();
    let next = sequenced(&records(2), 7, 1);
    // Space for the batch, but not for the epoch checkpoint.
    memory.set_room(Some(next.len() as u64));
    assert!(log.append(&next, 1, 0).is_err());
    memory.set_room(None);
    let appended = log.append(&next, 1, 0).unwrap();
    assert_eq!((appended.base_offset, appended.duplicate), (1, false));
    assert_eq!(read_all(&log.view(), 0, 1 << 20).len(), 3);
    assert_eq!(log.view().epoch_at(1), Some(1));
    log.close().unwrap();
    let log = open(&disk, &LogConfig::default(), FRESH);
    assert_eq!((log.view().epoch_at(0), log.view().epoch_at(1)), (Some(0), Some(1)));
}

#[test]
fn an_abort_is_known_after_a_restart_although_its_index_could_not_be_written() {
    for opening in [FRESH, KILLED] {
        let memory = MemoryDisk::crashable();
        let disk: Arc<dyn Disk> = Arc::new(memory.clone());
        let log = open(&disk, &LogConfig::default(), FRESH);
        let options = BatchOptions {
            attributes: Attributes::default().with_transactional(true),
            producer_id: 7,
            producer_epoch: 0,
            base_sequence: 0,
            ..BatchOptions::default()
        };
        log.append(&batch_with(&records(2), options), 0, 0).unwrap();
        let marker = ControlRecord::Abort { coordinator_epoch: 0 };
        let size = marker.end_transaction_batch(0, 7, 0).unwrap().unwrap().len();
        memory.set_room(Some(size as u64 + 10));
        log.append_marker(end_of(marker, 7, 0), 0, 0).unwrap();
        assert_eq!(log.view().aborted_transactions(0, 3).unwrap().len(), 1);
        memory.set_room(None);
        if opening.clean {
            log.close().unwrap();
        }
        drop(log);
        let log = open(&disk, &LogConfig::default(), opening);
        assert_eq!(log.view().aborted_transactions(0, 3).unwrap().len(), 1, "{opening:?}");
    }
}

#[test]
fn nobody_sees_what_is_not_synced_when_that_is_the_promise() {
    let memory = MemoryDisk::crashable();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let config = LogConfig {
        durability: Durability::Fsync,
        ..LogConfig::default()
    };
    let log = open(&disk, &config, FRESH);
    log.append(&batch(&records(3)), 0, 0).unwrap();
    assert_eq!((log.view().high_watermark, log.view().log_end_offset), (0, 3));
    assert!(log.view().read(0, 100, Isolation::ReadUncommitted).unwrap().is_none());
    assert_eq!(log.sync().unwrap(), 3);
    log.append(&batch(&records(2)), 0, 0).unwrap();
    assert_eq!(read_all(&log.view(), 0, 1 << 20).len(), 3);

    memory.set_syncs_fail(true);
    assert!(matches!(log.sync(), Err(StorageError::Io { action: "sync", .. })));
    assert_eq!(log.view().high_watermark, 3);
}

#[test]
fn an_idle_partition_has_no_files() {
    let memory = MemoryDisk::new();
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let log = open(&disk, &LogConfig::default(), FRESH);
    assert!(log.view().read(0, 100, Isolation::ReadUncommitted).unwrap().is_none());
    log.close().unwrap();
    assert!(!memory.exists(std::path::Path::new(DIR)).unwrap());
}

#[test]
fn segments_roll_by_size_and_by_time() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let size = batch(&records(1)).len() as u32;
    let config = LogConfig {
        segment_bytes: size * 2,
        segment_ms: 100,
        ..LogConfig::default()
    };
    let log = open(&disk, &config, FRESH);
    for timestamp in [0, 0, 0, 0, 0, 101] {
        log.append(&batch(&[Plain::new(timestamp, "a value of some length")]), 0, 0)
            .unwrap();
    }
    let mut names: Vec<String> = disk
        .list(std::path::Path::new(DIR))
        .unwrap()
        .into_iter()
        .map(|e| e.name)
        .collect();
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    let expected = [
        "00000000000000000000.log",
        "00000000000000000002.log",
        "00000000000000000004.log",
        "00000000000000000005.log",
    ];
    assert_eq!(names, expected);
}

#[test]
fn retention_by_time_removes_whole_old_segments_and_even_the_last() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let size = batch(&records(1)).len() as u32;
    let config = LogConfig {
        segment_bytes: size,
        retention_ms: 100,
        ..LogConfig::default()
    };
    let log = open(&disk, &config, FRESH);
    for timestamp in [10, 20, 30] {
        log.append(&batch(&[Plain::new(timestamp, "a value of some length")]), 0, 0)
            .unwrap();
    }
    assert_eq!(log.apply_retention(110).unwrap(), 0);
    assert_eq!(log.apply_retention(121).unwrap(), 2);
    assert_eq!(log.view().log_start_offset, 2);
    assert_eq!(log.apply_retention(1_000).unwrap(), 1);
    assert_eq!((log.view().log_start_offset, log.view().log_end_offset), (3, 3));
    // The offsets continue, also after a restart.
    let log = open(&disk, &config, KILLED);
    assert_eq!(log.append(&batch(&records(1)), 0, 0).unwrap().base_offset, 3);
}

#[test]
fn a_reader_keeps_what_retention_removes_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let config = LogConfig {
        segment_bytes: 200,
        ..LogConfig::default()
    };
    let log = Log::open(disk, &dir.path().join("letters-0"), config, FRESH).unwrap();
    for _ in 0..4 {
        log.append(&batch(&records(2)), 0, 0).unwrap();
    }
    let view = log.view();
    let slice = view.read(0, 1 << 20, Isolation::ReadUncommitted).unwrap().unwrap();
    log.delete_records(-1).unwrap();
    assert_eq!(log.view().log_start_offset, 8);
    assert_eq!(slice.read().unwrap().len(), slice.len);
}
