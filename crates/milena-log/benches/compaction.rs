//! Compaction of a log on the real disk in which nine of ten records are superseded, beside reading all of it once.
//!
//! `cargo bench -p milena-log --bench compaction`

#![allow(clippy::unwrap_used, reason = "a bench that meets the unexpected should stop there")]

use std::{fs, path::Path, sync::Arc};

use divan::{Bencher, counter::BytesCount};
use milena_log::{CompactionLimits, Isolation, Log, LogConfig, Opening, disk::RealDisk};
use milena_wire::records::{BatchBuilder, BatchOptions, NewRecord};
use tempfile::TempDir;

fn main() {
    divan::main();
}

/// Bytes in all segments that can be compacted, about.
const SIZE: usize = 256 << 20;
const SEGMENT_SIZE: u32 = 32 << 20;
/// Size of a batch of Java's producer.
const BATCH_SIZE: usize = 16 << 10;

const FRESH: Opening = Opening {
    clean: true,
    recovery_point: 0,
    log_start_offset: 0,
    known: None,
    accept_loss: false,
};

/// A log that is as large for all sizes of values; the last segment holds next to nothing.
fn filled(dir: &Path, value_size: usize) -> Log {
    let config = LogConfig {
        segment_bytes: SEGMENT_SIZE,
        compact: true,
        min_compaction_lag_ms: 0,
        ..LogConfig::default()
    };
    let log = Log::open(Arc::new(RealDisk), &dir.join("table-0"), config, FRESH).unwrap();
    let keys = (SIZE / value_size / 10) as u64;
    let value: Vec<u8> = (0..value_size).map(|i| (i * 31 % 251) as u8).collect();
    let (mut state, mut written) = (1u64, 0);
    while written < SIZE + BATCH_SIZE {
        let mut builder = BatchBuilder::new(BatchOptions::default());
        for _ in 0..(BATCH_SIZE / value_size).max(1) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let record = NewRecord {
                timestamp: 0,
                key: Some(&((state >> 33) % keys).to_be_bytes()),
                value: Some(&value),
                headers: &[],
            };
            builder.append(&record).unwrap();
        }
        let batch = builder.finish();
        written += batch.len();
        log.append(&batch, 0, 0).unwrap();
    }
    // Unsynced records are not compacted.
    log.sync().unwrap();
    log
}

#[divan::bench(args = [100, 1_000], sample_count = 10, sample_size = 1)]
fn compact(bencher: Bencher<'_, '_>, value_size: usize) {
    let filled = || -> (TempDir, Log) {
        let dir = tempfile::tempdir().unwrap();
        let log = filled(dir.path(), value_size);
        (dir, log)
    };
    bencher
        .with_inputs(filled)
        .counter(BytesCount::new(SIZE))
        .bench_values(|(dir, log)| {
            let stats = log.compact(0, CompactionLimits::default()).unwrap().unwrap();
            assert!(stats.bytes_after * 5 < stats.bytes_before, "{stats:?}");
            (dir, log)
        });
}

/// The speed of the disk: all bytes into the same memory.
#[divan::bench(args = [1_000], sample_count = 10, sample_size = 1)]
fn read(bencher: Bencher<'_, '_>, value_size: usize) {
    let dir = tempfile::tempdir().unwrap();
    let log = filled(dir.path(), value_size);
    assert!(log.view().read(0, 1, Isolation::ReadUncommitted).unwrap().is_some());
    bencher.counter(BytesCount::new(SIZE)).bench_local(|| {
        let files = fs::read_dir(dir.path().join("table-0")).unwrap();
        let logs = files
            .map(|file| file.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "log"));
        let mut buffer = vec![];
        for path in logs {
            buffer.clear();
            std::io::Read::read_to_end(&mut fs::File::open(path).unwrap(), &mut buffer).unwrap();
            divan::black_box(&buffer);
        }
    });
}
