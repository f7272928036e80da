//! A log whose topic was deleted while references to it remain, beside the log of a new topic in the same folder.

use std::{
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

use milena_log::{
    AppendError, CompactionLimits, DeleteRecordsError, Isolation, Log, LogConfig, StorageError,
    disk::{self, Disk, MemoryDisk},
};
use milena_wire::{
    errors::ErrorCode,
    records::{Attributes, BatchOptions, ControlRecord},
};

use crate::{
    batches::{DIR, FRESH, KILLED, Plain, batch, batch_with, end_of, open, read_all},
    fragile::FragileDisk,
};

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 200,
        retention_ms: 1_000,
        compact: true,
        delete: true,
        min_cleanable_dirty_ratio: 0.0,
        ..LogConfig::default()
    }
}

/// Records of both logs have the same size, so that a write of one would fit into the other.
fn fill(log: &Log, value: &str) {
    for i in 0..10 {
        log.append(&batch(&[Plain::new(i, &value.repeat(20))]), 0, i).unwrap();
    }
}

/// Every file in the folder, with its content.
fn files(disk: &dyn Disk) -> Vec<(String, Vec<u8>)> {
    let mut names: Vec<String> = disk
        .list(Path::new(DIR))
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    names.sort();
    let content = |name: &String| disk::read_file(disk, &Path::new(DIR).join(name)).unwrap();
    names.iter().map(|name| (name.clone(), content(name))).collect()
}

/// The log of a deleted topic, and that of its successor.
fn two_logs(disk: &Arc<dyn Disk>) -> (Log, Log) {
    let old = open(disk, &config(), FRESH);
    fill(&old, "o");
    old.sync().unwrap();
    old.retire();
    disk.remove_dir(Path::new(DIR)).unwrap();
    let new = open(disk, &config(), FRESH);
    fill(&new, "n");
    new.sync().unwrap();
    (old, new)
}

fn is_retired<T>(outcome: Result<T, StorageError>) -> bool {
    matches!(outcome, Err(StorageError::Retired { .. }))
}

#[test]
fn whatever_is_tried_with_it_the_files_of_the_next_log_stay_as_they_are() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let (old, new) = two_logs(&disk);
    let before = files(&*disk);
    for timestamp in [20, 5_000_000_000] {
        let refused = old.append(&batch(&[Plain::new(timestamp, "o")]), 0, timestamp);
        assert_eq!(refused.unwrap_err().error_code(), ErrorCode::UnknownTopicOrPartition);
    }
    let own = old.append_own(&batch(&[Plain::new(20, "o")]), 1, 20);
    assert!(matches!(own, Err(AppendError::Storage(StorageError::Retired { .. }))));
    let abort = ControlRecord::Abort { coordinator_epoch: 0 };
    assert!(old.append_marker(end_of(abort, 7, 0), 0, 20).is_err());
    assert!(is_retired(old.compact(20, CompactionLimits::default())));
    let deleted = old.delete_records(5);
    assert!(matches!(
        deleted,
        Err(DeleteRecordsError::Storage(StorageError::Retired { .. }))
    ));
    assert!(is_retired(old.apply_retention(1 << 50)));
    assert!(is_retired(old.close()));
    assert_eq!(files(&*disk), before);
    let records = read_all(&new.view(), 0, 1 << 20);
    drop(new);
    assert_eq!(read_all(&open(&disk, &config(), KILLED).view(), 0, 1 << 20), records);
}

/// Writes a record in a transaction, and aborts it.
fn abort(log: &Log) {
    let options = BatchOptions {
        attributes: Attributes::default().with_transactional(true),
        producer_id: 7,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchOptions::default()
    };
    log.append(&batch_with(&[Plain::new(0, "aborted")], options), 0, 0)
        .unwrap();
    let abort = ControlRecord::Abort { coordinator_epoch: 0 };
    log.append_marker(end_of(abort, 7, 0), 0, 0).unwrap();
}

#[test]
fn who_reads_it_is_not_told_what_the_next_log_says() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let old = open(&disk, &config(), FRESH);
    fill(&old, "o");
    old.close().unwrap();
    let old = open(&disk, &config(), FRESH);
    let view = old.view();
    old.retire();
    disk.remove_dir(Path::new(DIR)).unwrap();
    let new = open(&disk, &config(), FRESH);
    abort(&new);
    assert!(view.aborted_transactions(0, 10).unwrap().is_empty());
    let slice = view.read(0, 1 << 20, Isolation::ReadUncommitted).unwrap().unwrap();
    let bytes = slice.read().unwrap();
    assert!(bytes.windows(20).any(|window| window == [b'o'; 20]));
}

#[test]
fn compaction_that_is_under_way_leaves_nothing_in_the_folder_of_the_next_log() {
    // The topic is deleted and created again at each step of the compaction in turn.
    for operations in 0.. {
        let fragile = FragileDisk::new(MemoryDisk::new());
        let disk: Arc<dyn Disk> = Arc::new(fragile.clone());
        let old = Arc::new(open(&disk, &config(), FRESH));
        fill(&old, "o");
        old.sync().unwrap();
        let (asked, deleting) = mpsc::channel();
        let (held, memory) = (Arc::clone(&old), fragile.inner.clone());
        fragile.interrupt_after(operations, move || {
            // Elsewhere, because it waits for the operation that is going on here.
            let replacing = thread::spawn(move || {
                held.retire();
                memory.remove_dir(Path::new(DIR)).unwrap();
                let disk: Arc<dyn Disk> = Arc::new(memory);
                let new = open(&disk, &config(), FRESH);
                fill(&new, "n");
                (files(&*disk), new)
            });
            asked.send(replacing).unwrap();
        });
        let outcome = old.compact(20, CompactionLimits::default());
        let Ok(replacing) = deleting.try_recv() else {
            assert!(outcome.unwrap().is_some());
            assert!(operations > 10, "compaction has more than {operations} steps");
            return;
        };
        let (expected, new) = replacing.join().unwrap();
        assert_eq!(files(&fragile.inner), expected, "after {operations} operations");
        assert_eq!(read_all(&new.view(), 0, 1 << 20).len(), 10);
    }
}
