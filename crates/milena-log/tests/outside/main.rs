//! Our segment files before Kafka's own tool for them.
//!
//! `cargo test -p milena-log --features outside --test outside`, with Java 17 and Maven installed.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]
#![allow(unreachable_pub, reason = "nothing outside a test binary can reach into it")]

#[path = "../it/batches.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod batches;
#[path = "../it/keyed.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod keyed;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use batches::{FRESH, Plain, batch_with, end_of};
use keyed::{Keyed, committed, keyed as keyed_batch};
use milena_log::{CompactionLimits, Log, LogConfig, disk::RealDisk};
use milena_wire::{
    compression::Codec,
    records::{Attributes, BatchOptions, ControlRecord},
};

/// Several segments with plain, idempotent and transactional batches.
fn write_log(dir: &Path) {
    let config = LogConfig {
        segment_bytes: 20_000,
        index_interval_bytes: 1_000,
        ..LogConfig::default()
    };
    let log = Log::open(Arc::new(RealDisk), dir, config, FRESH).unwrap();
    let mut sequence = 0;
    for i in 0..300i64 {
        let count = 1 + (i % 4) as i32;
        let records: Vec<Plain> = (0..count)
            .map(|k| Plain::new(1_000 * i + i64::from(k * 7 % 3), &format!("value {i}-{k}").repeat(5)))
            .collect();
        let plain = BatchOptions::default();
        let idempotent = BatchOptions {
            producer_id: 7,
            producer_epoch: 1,
            base_sequence: sequence,
            ..plain
        };
        let transactional = BatchOptions {
            producer_id: 8,
            producer_epoch: 0,
            base_sequence: 0,
            attributes: Attributes::default().with_transactional(true),
            ..plain
        };
        let options = match i {
            250 => transactional,
            _ if i % 2 == 0 => plain,
            _ => idempotent,
        };
        log.append(&batch_with(&records, options), (i / 100) as i32, 1_000 * i)
            .unwrap();
        if options == idempotent {
            sequence += count;
        }
    }
    log.close().unwrap();
}

/// Keys in batches of all codecs, with tombstones, committed and aborted transactions; compacted twice. Returns the
/// number of remaining records.
fn write_compacted_log(dir: &Path) -> usize {
    let config = LogConfig {
        segment_bytes: 8_000,
        index_interval_bytes: 300,
        compact: true,
        delete: false,
        ..LogConfig::default()
    };
    let log = Log::open(Arc::new(RealDisk), dir, config, FRESH).unwrap();
    for (now_ms, round) in [(400_000, 0..200i64), (500_000, 200..400)] {
        for i in round {
            let is_transactional = i % 3 == 0;
            let options = BatchOptions {
                attributes: Attributes::default().with_transactional(is_transactional),
                producer_id: i % 3,
                producer_epoch: 0,
                base_sequence: (i / 3 * 4) as i32,
                ..BatchOptions::default()
            };
            let records: Vec<Keyed> = (0..4)
                .map(|k| {
                    let value = format!("value {i}-{k}").repeat(5);
                    let is_tombstone = (i + k) % 7 == 0;
                    Keyed::new(
                        1_000 * i - k,
                        &format!("key {}", i * k % 97),
                        (!is_tombstone).then_some(&*value),
                    )
                })
                .collect();
            let codec = Codec::ALL[i as usize % 5];
            log.append(&keyed_batch(&records, options, codec), 0, 1_000 * i)
                .unwrap();
            if is_transactional {
                let marker = match i % 2 {
                    0 => ControlRecord::Commit { coordinator_epoch: 0 },
                    _ => ControlRecord::Abort { coordinator_epoch: 0 },
                };
                log.append_marker(end_of(marker, 0, 0), 0, 1_000 * i).unwrap();
            }
        }
        log.sync().unwrap();
        let stats = log.compact(now_ms, CompactionLimits::default()).unwrap().unwrap();
        assert!(stats.bytes_after < stats.bytes_before / 2, "{stats:?}");
    }
    log.close().unwrap();
    committed(&log.view(), 0, 1 << 20).len()
}

/// Output of Kafka's tool for the files of `dir` with this extension.
fn dump(dir: &Path, ending: &str, options: &[&str]) -> String {
    let mut files: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == ending));
    files.sort();
    assert!(!files.is_empty(), "no {ending} file");
    let list: Vec<&str> = files.iter().map(|path| path.to_str().unwrap()).collect();
    let output = Command::new(env!("CARGO"))
        .args([
            "run",
            "--quiet",
            "--package",
            "xtask",
            "--",
            "kafka",
            "tool",
            "dump-log",
            "--files",
            &list.join(","),
        ])
        .args(options)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let problem = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{problem}{text}");
    // The tool prints problems and still exits with 0.
    for complaint in [
        "Found",
        "mismatch",
        "isvalid: false",
        "Exception",
        "not sane",
        "invalid",
    ] {
        assert!(
            !text.contains(complaint) && !problem.contains(complaint),
            "{complaint}: {problem}{text}"
        );
    }
    text
}

#[test]
fn kafkas_dump_tool_finds_nothing_wrong_with_our_files() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("letters-0");
    write_log(&dir);

    let log = dump(&dir, "log", &["--deep-iteration", "--print-data-log"]);
    let expected: i64 = (0..300).map(|i| 1 + i % 4).sum();
    assert_eq!(log.matches("payload: value").count() as i64, expected);
    assert!(log.contains(&format!("offset: {}", expected - 1)));
    dump(&dir, "index", &["--index-sanity-check"]);
    dump(&dir, "index", &["--verify-index-only"]);
    let times = dump(&dir, "timeindex", &[]);
    assert!(times.contains("timestamp:"));
    let snapshots = dump(&dir, "snapshot", &[]);
    assert!(snapshots.contains("producerId: 7 producerEpoch: 1"), "{snapshots}");
    assert!(snapshots.contains("producerId: 8 producerEpoch: 0"), "{snapshots}");
}

#[test]
fn kafkas_dump_tool_finds_nothing_wrong_with_compacted_files() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("letters-0");
    let count = write_compacted_log(&dir);

    let log = dump(&dir, "log", &["--deep-iteration", "--print-data-log"]);
    let records = log.matches(" headerKeys: [kind,kind] key: key ").count();
    // Those of aborted transactions that are too young to be compacted are in the files too.
    assert!(
        records >= count && records < count + 50,
        "{records} of {count} at least"
    );
    assert!(log.contains("deleteHorizonMs: OptionalLong[86900000]"), "{log}");
    assert!(log.contains(" count: 0 "), "no batch without records");
    assert!(log.contains("endTxnMarker: COMMIT") && log.contains("endTxnMarker: ABORT"));
    dump(&dir, "index", &["--index-sanity-check"]);
    dump(&dir, "index", &["--verify-index-only"]);
    dump(&dir, "timeindex", &[]);
    assert!(dump(&dir, "txnindex", &[]).contains("producerId: 0"));
}
