//! Every kind of damage to every file of a log, after a clean stop and after a crash: the log serves everything, or
//! names what is missing, and assigns no offset twice.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use milena_log::{
    Isolation, Ledger, Log, LogConfig, LogMark, LogView, Opening,
    disk::{self, Disk, MemoryDisk},
    inspect::{Severity, inspect},
};
use milena_wire::{
    pool::BufferPool,
    records::{Attributes, BatchOptions, Batches, ControlRecord, RecordDecoder, RecordSet},
};

use crate::batches::{DIR, FRESH, Plain, batch, batch_with, end_of};

type Files = BTreeMap<String, Vec<u8>>;

/// The files that a process left, and its last known state.
struct Left {
    files: Files,
    mark: LogMark,
    clean: bool,
}

#[derive(Debug, Default)]
struct Notes(Mutex<LogMark>);

impl Ledger for Notes {
    fn note(&self, mark: &LogMark) {
        *self.0.lock().unwrap() = *mark;
    }
}

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 700,
        index_interval_bytes: 100,
        ..LogConfig::default()
    }
}

/// A log with several segments, two aborted transactions, and unsynced records. The value of each record is its
/// offset.
fn fill(prefix: &str, size: i64, batches: i64, clean: bool) -> Left {
    let memory = MemoryDisk::new();
    let shared: Arc<dyn Disk> = Arc::new(memory.clone());
    let log = Log::open(shared, Path::new(DIR), config(), FRESH).unwrap();
    let notes = Arc::new(Notes::default());
    log.keep_ledger(Arc::<Notes>::clone(&notes));
    for number in 0..batches {
        let end = log.view().log_end_offset;
        let records: Vec<Plain> = (end..end + size)
            .map(|offset| Plain::new(offset, &format!("{prefix}{offset}")))
            .collect();
        if number == 3 || number == batches - 3 {
            let options = BatchOptions {
                attributes: Attributes::default().with_transactional(true),
                producer_id: 7,
                producer_epoch: 0,
                base_sequence: if number == 3 { 0 } else { size as i32 },
                ..BatchOptions::default()
            };
            log.append(&batch_with(&records, options), 0, 0).unwrap();
            let abort = ControlRecord::Abort { coordinator_epoch: 0 };
            log.append_marker(end_of(abort, 7, 0), 0, 0).unwrap();
        } else {
            log.append(&batch(&records), 0, 0).unwrap();
        }
        if number == batches - 2 {
            log.sync().unwrap();
        }
    }
    if clean {
        log.close().unwrap();
    }
    let mark = *notes.0.lock().unwrap();
    let entries = memory.list(Path::new(DIR)).unwrap();
    let files = entries.into_iter().map(|entry| {
        let content = disk::read_file(&memory, &Path::new(DIR).join(&entry.name)).unwrap();
        (entry.name, content)
    });
    Left {
        files: files.collect(),
        mark,
        clean,
    }
}

fn disk_of(files: &Files) -> Arc<dyn Disk> {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    disk.create_dir(Path::new(DIR)).unwrap();
    for (name, content) in files {
        let file = disk.create(&Path::new(DIR).join(name)).unwrap();
        file.write_at(content, &[], 0).unwrap();
    }
    disk
}

/// The view of a reader: records by offset, and offsets that are reported as unreadable.
#[derive(Debug, Default)]
struct Reading {
    records: BTreeMap<i64, String>,
    unreadable: Vec<(i64, i64)>,
}

fn read(view: &LogView) -> Reading {
    let mut reading = Reading::default();
    let mut decoder = RecordDecoder::new(BufferPool::new(0), 1 << 20);
    let mut set = RecordSet::default();
    let (mut offset, end) = (view.log_start_offset, view.log_end_offset);
    // The start of the batch that could not be read last. The end in its header may be wrong.
    let mut damaged_from = None;
    while offset < end {
        let before = offset;
        let bytes = match view.read(offset, 1 << 20, Isolation::ReadUncommitted) {
            Ok(Some(slice)) => slice.read().unwrap(),
            Ok(None) => break,
            Err(_) => {
                reading.unreadable.push((offset, end));
                break;
            }
        };
        for batch in Batches::new(bytes) {
            let Ok(batch) = batch else { break };
            if batch.verify().is_err() {
                damaged_from.get_or_insert(offset);
                let after = batch.last_offset() + 1;
                offset = if after > offset { after.min(end) } else { end };
                // A client reports it and stops, unless it is configured to skip.
                continue;
            }
            batch.decode_into(&mut decoder, &mut set).unwrap();
            let first = set.get(0).map_or(offset, |record| record.offset());
            reading.unreadable.extend(damaged_from.take().map(|from| (from, first)));
            for record in set.iter() {
                let text = String::from_utf8_lossy(record.value().unwrap_or_default()).into_owned();
                if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
                    reading.records.insert(record.offset(), text);
                }
            }
            offset = batch.last_offset() + 1;
        }
        if offset == before {
            reading.unreadable.push((offset, end));
            break;
        }
    }
    reading.unreadable.extend(damaged_from.map(|from| (from, end)));
    reading
}

/// One kind of damage: its name, and the damaged content of a file; `None` removes the file.
type Case = (String, Option<Vec<u8>>);

fn cases(name: &str, content: &[u8], other: &Files) -> Vec<Case> {
    let mut cases: Vec<Case> = vec![("missing".to_owned(), None)];
    if !content.is_empty() {
        cases.push(("empty".to_owned(), Some(vec![])));
    }
    for place in 0..content.len() {
        let mut flipped = content.to_vec();
        flipped[place] ^= 1 << (place % 8);
        cases.push((format!("byte {place} flipped"), Some(flipped)));
    }
    for length in (1..content.len()).filter(|length| length % 5 == 1 || *length + 3 > content.len()) {
        cases.push((format!("cut to {length}"), Some(content[..length].to_vec())));
    }
    let ending = |name: &str| name.rsplit_once('.').map(|(_, ending)| ending.to_owned());
    let others = other.iter().filter(|(other, _)| ending(other) == ending(name));
    for (other, theirs) in others.filter(|(_, theirs)| *theirs != content) {
        cases.push((format!("exchanged for the other's {other}"), Some(theirs.clone())));
    }
    cases
}

/// Whether damage at a byte of a segment is undetectable: the checksum covers neither offset nor epoch.
fn is_outside_checksum(content: &[u8], what: &str) -> bool {
    let Some(place) = what.strip_prefix("byte ").and_then(|rest| rest.split(' ').next()) else {
        return false;
    };
    let place: usize = place.parse().unwrap();
    let mut start = 0;
    while start + 61 <= content.len() {
        let length = i32::from_be_bytes(content[start + 8..start + 12].try_into().unwrap()) as usize;
        if place < start + 12 + length {
            let within = place - start;
            return within < 8 || (12..16).contains(&within);
        }
        start += 12 + length;
    }
    false
}

/// Opens a damaged log and returns the violated expectations.
fn judge(left: &Left, whole: &Reading, name: &str, (what, content): &Case) -> Result<(), String> {
    let mut files = left.files.clone();
    match content {
        None => drop(files.remove(name)),
        Some(content) => drop(files.insert(name.to_owned(), content.clone())),
    }
    let opening = Opening {
        clean: left.clean,
        recovery_point: left.mark.synced_offset,
        log_start_offset: left.mark.log_start_offset,
        known: Some(left.mark),
        accept_loss: false,
    };
    let disk = disk_of(&files);
    let found = inspect(&disk, Path::new(DIR), false, Some(left.mark)).map_err(|error| format!("inspect: {error}"))?;
    let sees_damage = found
        .findings
        .iter()
        .any(|finding| finding.severity == Severity::Damage);
    let log = match Log::open(Arc::clone(&disk), Path::new(DIR), config(), opening) {
        Ok(log) => log,
        Err(error) => {
            let names_it = error.to_string().contains("letters-0");
            return match (names_it, sees_damage) {
                (true, true) => accepted(&disk, opening, left),
                (true, false) => Err(format!("refused ({error}), but inspect sees nothing")),
                (false, _) => Err(format!("{error} does not name the partition")),
            };
        }
    };
    let is_silent = is_silent(left, name, what);
    let reading = serves_or_says(&log, whole, is_silent, sees_damage)?;
    goes_on(&log, left)?;
    // A repair holds.
    if !is_silent {
        let again = Log::open(
            disk,
            Path::new(DIR),
            config(),
            Opening {
                clean: false,
                known: None,
                ..opening
            },
        );
        let again = again.map_err(|error| format!("the second start: {error}"))?;
        let second = read(&again.view());
        if reading
            .records
            .iter()
            .any(|(offset, text)| second.records.get(offset) != Some(text))
        {
            return Err(format!("the second start lost more: {:?}", again.recovery()));
        }
    }
    Ok(())
}

/// Whether damage cannot be noticed by a start: a segment that is trusted is not read, so only the doctor sees it.
fn is_silent(left: &Left, name: &str, what: &str) -> bool {
    let last = left.files.keys().rfind(|other| other.ends_with(".log"));
    let is_trusted = left.clean || last.is_none_or(|last| last != name);
    is_trusted && name.ends_with(".log") && is_outside_checksum(&left.files[name], what)
}

/// Checks that an opened log serves all records, or has reported those that it does not.
fn serves_or_says(log: &Log, whole: &Reading, is_silent: bool, sees_damage: bool) -> Result<Reading, String> {
    let view = log.view();
    let reading = read(&view);
    let told = |offset: &i64| {
        let lost = log
            .recovery()
            .damage
            .iter()
            .map(|damage| (damage.from_offset, damage.to_offset));
        let mut spans = lost.chain(reading.unreadable.iter().copied());
        spans.any(|(from, to)| (from..to).contains(offset))
    };
    let untold: Vec<_> = whole
        .records
        .keys()
        .filter(|offset| !reading.records.contains_key(offset) && !told(offset))
        .collect();
    let wrong: Vec<_> = reading
        .records
        .iter()
        .filter(|(offset, text)| whole.records.get(offset) != Some(text))
        .collect();
    if !(is_silent || (untold.is_empty() && wrong.is_empty())) {
        return Err(format!(
            "missing untold {untold:?}, wrong {wrong:?}, {:?}",
            log.recovery()
        ));
    }
    let misses = reading.records.len() < whole.records.len() || !wrong.is_empty();
    if misses && !sees_damage {
        return Err(format!(
            "records are missing, but inspect sees nothing: {:?}",
            log.recovery()
        ));
    }
    if log.recovery().damage.is_empty() && reading.unreadable.is_empty() {
        let aborted = view
            .aborted_transactions(0, view.log_end_offset)
            .map_err(|error| error.to_string())?;
        if aborted.len() != 2 {
            return Err(format!("{} aborted transactions", aborted.len()));
        }
    }
    Ok(reading)
}

/// A log that was refused opens when losses are accepted, and assigns no offset twice.
fn accepted(disk: &Arc<dyn Disk>, opening: Opening, left: &Left) -> Result<(), String> {
    let opening = Opening {
        accept_loss: true,
        ..opening
    };
    let log = Log::open(Arc::clone(disk), Path::new(DIR), config(), opening);
    goes_on(&log.map_err(|error| format!("with losses accepted: {error}"))?, left)
}

fn goes_on(log: &Log, left: &Left) -> Result<(), String> {
    let next = log
        .append(&batch(&[Plain::new(9, "next")]), 0, 0)
        .map_err(|error| error.to_string())?;
    match next.base_offset >= left.mark.high_watermark {
        true => Ok(()),
        false => Err(format!("offset {} is given out again", next.base_offset)),
    }
}

fn check(clean: bool) {
    let left = fill("letter ", 2, 14, clean);
    let other = fill("other ", 3, 9, clean);
    let whole = read(&{
        let log = Log::open(
            disk_of(&left.files),
            Path::new(DIR),
            config(),
            Opening {
                clean,
                known: Some(left.mark),
                ..FRESH
            },
        );
        log.unwrap().view().as_ref().clone()
    });
    assert_eq!(whole.records.len(), 28, "{whole:?}");
    let (mut count, mut failures) = (0, vec![]);
    for (name, content) in &left.files {
        for case in cases(name, content, &other.files) {
            count += 1;
            if let Err(problem) = judge(&left, &whole, name, &case) {
                failures.push(format!("{name}: {}: {problem}", case.0));
            }
        }
    }
    let shown: Vec<_> = failures.iter().take(40).cloned().collect();
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        shown.join("\n")
    );
}

#[test]
fn no_damage_after_a_clean_stop_goes_unnoticed() {
    check(true);
}

#[test]
fn no_damage_after_a_crash_goes_unnoticed() {
    check(false);
}

#[test]
fn bytes_that_are_cut_off_are_kept_and_never_overwritten() {
    let left = fill("letter ", 2, 14, false);
    let (name, content) = left.files.iter().rfind(|(name, _)| name.ends_with(".log")).unwrap();
    let opening = Opening {
        clean: false,
        recovery_point: left.mark.synced_offset,
        known: Some(left.mark),
        ..FRESH
    };
    let mut files = left.files.clone();
    let torn = [content.clone(), content[..30].to_vec()].concat();
    files.insert(name.clone(), torn);
    let disk = disk_of(&files);
    let mut kept: Vec<PathBuf> = vec![];
    for _ in 0..2 {
        let log = Log::open(Arc::clone(&disk), Path::new(DIR), config(), opening).unwrap();
        let damage = &log.recovery().damage;
        assert_eq!(damage.len(), 1, "{damage:?}");
        assert!(!damage[0].is_loss() && damage[0].bytes == 30, "{damage:?}");
        assert_eq!(disk::read_file(&*disk, &damage[0].kept[0]).unwrap(), content[..30]);
        kept.extend(damage[0].kept.clone());
        // The same damage again at the same position.
        let file = disk.open(&Path::new(DIR).join(name)).unwrap();
        file.write_at(&content[..30], &[], content.len() as u64).unwrap();
    }
    assert_ne!(kept[0], kept[1]);
}
