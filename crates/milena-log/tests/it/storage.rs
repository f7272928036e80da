//! When the disk misbehaves, and how segments come and go.

use std::sync::Arc;

use milena_log::{
    Durability, Isolation, LogConfig, StorageError,
    disk::{Disk, MemoryDisk, RealDisk},
};

use crate::batches::{DIR, FRESH, KILLED, Plain, batch, open, read_all};

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
    assert!(error.to_string().contains("no room left"), "{error}");
    assert_eq!(read_all(&log.view(), 0, 1 << 20).len(), 3);
    memory.set_room(None);
    assert_eq!(log.append(&batch(&records(3)), 0, 0).unwrap().base_offset, 3);
    assert_eq!(read_all(&log.view(), 0, 1 << 20).len(), 6);
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
    // The offsets go on, also after a restart.
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
    let log = milena_log::Log::open(disk, &dir.path().join("letters-0"), config, FRESH).unwrap();
    for _ in 0..4 {
        log.append(&batch(&records(2)), 0, 0).unwrap();
    }
    let view = log.view();
    let slice = view.read(0, 1 << 20, Isolation::ReadUncommitted).unwrap().unwrap();
    log.delete_records(-1).unwrap();
    assert_eq!(log.view().log_start_offset, 8);
    assert_eq!(slice.read().unwrap().len(), slice.len);
}
