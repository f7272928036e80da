//! Opening after a crash.

use std::{path::Path, sync::Arc};

use milena_log::{
    LogConfig, Opening,
    disk::{self, Disk, MemoryDisk},
};

use crate::batches::{DIR, FRESH, KILLED, Plain, batch, open, read_all};

fn config() -> LogConfig {
    LogConfig {
        index_interval_bytes: 100,
        ..LogConfig::default()
    }
}

fn memory() -> (MemoryDisk, Arc<dyn Disk>) {
    let disk = MemoryDisk::new();
    (disk.clone(), Arc::new(disk))
}

/// The bytes of a segment with four batches of two records, and where each batch ends.
fn segment() -> (Vec<u8>, Vec<usize>) {
    let (_, disk) = memory();
    let log = open(&disk, &config(), FRESH);
    let mut ends = vec![];
    for i in 0..4 {
        let records = [Plain::new(i, "first"), Plain::new(i, &"second".repeat(i as usize))];
        log.append(&batch(&records), 3, 0).unwrap();
        ends.push(log.view().size() as usize);
    }
    (disk::read_file(&*disk, &segment_path()).unwrap(), ends)
}

fn segment_path() -> std::path::PathBuf {
    Path::new(DIR).join("00000000000000000000.log")
}

fn disk_with(segment: &[u8]) -> Arc<dyn Disk> {
    let (_, disk) = memory();
    disk.create_dir(Path::new(DIR)).unwrap();
    disk::replace_file(&*disk, &segment_path(), segment).unwrap();
    disk
}

#[test]
fn every_cut_of_the_tail_recovers_to_the_last_whole_batch() {
    let (bytes, ends) = segment();
    for length in 0..=bytes.len() {
        let disk = disk_with(&bytes[..length]);
        let log = open(&disk, &config(), KILLED);
        let whole = ends.iter().filter(|end| **end <= length).count() as i64;
        assert_eq!(log.view().log_end_offset, whole * 2, "cut at {length}");
        assert_eq!(read_all(&log.view(), 0, 1 << 20).len() as i64, whole * 2);
        // Appends continue as before.
        let appended = log.append(&batch(&[Plain::new(9, "more")]), 3, 0).unwrap();
        assert_eq!(appended.base_offset, whole * 2);
        assert_eq!(read_all(&log.view(), 0, 1 << 20).len() as i64, whole * 2 + 1);
    }
}

#[test]
fn every_damaged_byte_costs_its_batch_and_what_follows() {
    let (bytes, ends) = segment();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x10;
        let log = open(&disk_with(&damaged), &config(), KILLED);
        let before = ends.iter().filter(|end| **end <= place).count() as i64;
        let start = before
            .checked_sub(1)
            .and_then(|i| ends.get(i as usize))
            .copied()
            .unwrap_or(0);
        // A leader epoch is not covered by the checksum. Nor is a base offset, but a larger one only leaves a gap.
        let outside_crc = place - start < 8 || (12..16).contains(&(place - start));
        let read = read_all(&log.view(), 0, 1 << 20).len() as i64;
        if outside_crc {
            assert!(read >= before * 2, "byte {place}");
        } else {
            assert_eq!(read, before * 2, "byte {place}");
            assert_eq!(log.recovery().damage.len(), 1, "byte {place}");
            assert_eq!(log.recovery().damage[0].from_offset, before * 2, "byte {place}");
        }
        // The batches behind the damage reveal which offsets were assigned; for the last batch, its own
        // header does.
        let is_header = (8..12).contains(&(place - start)) || (16..61).contains(&(place - start));
        if before < 3 || !is_header {
            assert!(log.view().log_end_offset >= 8, "byte {place}: {:?}", log.recovery());
        }
    }
}

#[test]
fn a_clean_start_reads_no_records() {
    let (_, disk) = memory();
    let log = open(&disk, &config(), FRESH);
    for i in 0..20 {
        log.append(&batch(&[Plain::new(i, "a value")]), 0, 0).unwrap();
    }
    log.close().unwrap();
    // Damage in the middle that a reader of records would notice.
    let mut bytes = disk::read_file(&*disk, &segment_path()).unwrap();
    bytes[70] ^= 1;
    disk::replace_file(&*disk, &segment_path(), &bytes).unwrap();
    assert_eq!(open(&disk, &config(), FRESH).view().log_end_offset, 20);
    let log = open(&disk, &config(), KILLED);
    assert_eq!(read_all(&log.view(), 0, 1 << 20).len(), 0);
    assert_eq!(log.view().log_end_offset, 20, "no offset is given out again");
}

#[test]
fn missing_and_damaged_indexes_are_built_anew() {
    let (memory, disk) = memory();
    let log = open(&disk, &config(), FRESH);
    for i in 0..20 {
        log.append(&batch(&[Plain::new(i * 10, "a value")]), 0, 0).unwrap();
    }
    log.close().unwrap();
    for ending in ["index", "timeindex"] {
        let path = segment_path().with_extension(ending);
        let good = disk::read_file(&memory, &path).unwrap();
        assert!(!good.is_empty());
        for bad in [None, Some(&good[1..]), Some(&[0xff; 48][..])] {
            match bad {
                None => memory.remove(&path).unwrap(),
                Some(bytes) => disk::replace_file(&memory, &path, bytes).unwrap(),
            }
            let log = open(&disk, &config(), FRESH);
            assert_eq!(log.view().log_end_offset, 20);
            let found = log.view().offset_for_time(95).unwrap().unwrap().offset;
            assert_eq!(found, 10, "{ending} {bad:?}");
            assert_eq!(disk::read_file(&memory, &path).unwrap(), good);
        }
    }
}

#[test]
fn leader_epochs_survive_with_their_offsets() {
    let (_, disk) = memory();
    let log = open(&disk, &config(), FRESH);
    for epoch in [0, 0, 4, 4, 7] {
        log.append(&batch(&[Plain::new(0, "a")]), epoch, 0).unwrap();
    }
    for opening in [
        FRESH,
        KILLED,
        Opening {
            log_start_offset: 3,
            ..FRESH
        },
    ] {
        let view = open(&disk, &config(), opening).view();
        assert_eq!(view.end_of_epoch(4, 7), Some((4, 4)));
        assert_eq!(view.end_of_epoch(6, 7), Some((4, 4)));
        assert_eq!(view.end_of_epoch(7, 7), Some((7, 5)));
        assert_eq!(view.end_of_epoch(8, 7), None);
        assert_eq!(view.epoch_at(3), Some(4));
    }
}
