//! Looking at the files of a log without changing them.

use std::{path::Path, sync::Arc};

use crate::{
    disk::{self, Disk},
    error::{Doing, StorageError},
    ledger::LogMark,
    load::EPOCHS,
    segment::{Segment, base_offset_of, file_name},
    snapshot,
    sums::{self, Sums},
    survey::{self, Rules, Survey},
};

/// The content of the files of a log.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    pub segments: usize,
    pub bytes: u64,
    pub records: u64,
    pub log_start_offset: i64,
    pub log_end_offset: i64,
    /// In the order of offsets.
    pub findings: Vec<Finding>,
}

/// One fault of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    /// The name of the file in the folder of the partition.
    pub file: String,
    pub position: Option<u64>,
    /// The offsets that are missing or cannot be read, the second exclusive.
    pub offsets: Option<(i64, i64)>,
    pub problem: String,
}

/// The meaning of a finding for the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is wrong; an earlier start has left it.
    Note,
    /// The next start mends it, and no record is missing.
    Mendable,
    /// Records are missing or cannot be read.
    Damage,
}

/// Reads all files of the log in `dir` and checks each batch. `known` is the last state that the ledger has of it.
pub fn inspect(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    compacted: bool,
    known: Option<LogMark>,
) -> Result<Inspection, StorageError> {
    let mut inspector = Inspector {
        disk,
        dir,
        compacted,
        known,
        crc_at_mark: None,
        found: Inspection::default(),
    };
    let mut names: Vec<String> = match disk.exists(dir).doing("look for", dir)? {
        true => disk
            .list(dir)
            .doing("list", dir)?
            .into_iter()
            .map(|entry| entry.name)
            .collect(),
        false => vec![],
    };
    names.sort();
    inspector.segments(&names)?;
    inspector.others(&names);
    Ok(inspector.found)
}

struct Inspector<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    compacted: bool,
    known: Option<LogMark>,
    /// The checksum of the batch that ended the log when its state was noted.
    crc_at_mark: Option<u32>,
    found: Inspection,
}

impl Inspector<'_> {
    fn segments(&mut self, names: &[String]) -> Result<(), StorageError> {
        let bases: Vec<i64> = names.iter().filter_map(|name| base_offset_of(name, "log")).collect();
        let start = self.known.map_or(0, |known| known.log_start_offset);
        let first = bases.first().copied();
        let mut expected = first.unwrap_or(start);
        self.found.log_start_offset = start.max(expected);
        if self.known.is_some() && expected > start {
            self.missing(
                start,
                expected,
                &file_name(expected, "log"),
                "the log begins later than it did",
            );
        }
        for (place, base_offset) in bases.iter().copied().enumerate() {
            let name = file_name(base_offset, "log");
            if place > 0 && base_offset > expected && !(self.compacted && self.known.is_none()) {
                self.missing(expected, base_offset, &name, "no segment before it holds them");
            } else if place > 0 && base_offset < expected {
                let problem = format!("it begins before offset {expected}, where the segment before it ends");
                self.add(Severity::Damage, &name, None, None, problem);
            }
            let next = bases.get(place + 1).copied();
            expected = self.segment(base_offset, expected.max(base_offset), next)?;
        }
        self.found.log_end_offset = expected;
        self.check_end(expected);
        Ok(())
    }

    /// Checks one segment; returns the offset after its last record.
    fn segment(&mut self, base_offset: i64, expected: i64, next: Option<i64>) -> Result<i64, StorageError> {
        let name = file_name(base_offset, "log");
        let segment = Segment::new(Arc::clone(self.disk), self.dir, base_offset);
        let size = segment.file_size()?;
        let rules = Rules {
            expected,
            floor: i64::MAX,
            limit: next.or_else(|| self.known.map(|known| known.end_offset)),
        };
        let known = self.known;
        let mut crc_at_mark = self.crc_at_mark;
        let survey = survey::survey(&segment, size, rules, |batch| {
            if known.is_some_and(|known| known.end_offset == batch.last_offset() + 1) {
                crc_at_mark = survey::crc_of(batch);
            }
        })?;
        self.crc_at_mark = crc_at_mark;
        self.found.segments += 1;
        self.found.bytes += u64::from(size);
        self.found.records += survey.records;
        self.tell_spans(&name, &survey);
        self.check_indexes(&segment, base_offset, next.is_none());
        Ok(survey.end_offset)
    }

    fn tell_spans(&mut self, name: &str, survey: &Survey) {
        for hole in &survey.holes {
            let offsets = (hole.from_offset < hole.to_offset).then_some((hole.from_offset, hole.to_offset));
            let problem = format!("{} ({} bytes)", hole.reason, hole.end - hole.start);
            self.add(Severity::Damage, name, Some(u64::from(hole.start)), offsets, problem);
        }
        let Some(tail) = &survey.tail else { return };
        let seen = self.known.map_or(tail.to_offset, |known| known.high_watermark);
        let offsets = (tail.from_offset < seen).then_some((tail.from_offset, seen));
        let severity = match offsets {
            None if tail.torn => Severity::Mendable,
            _ => Severity::Damage,
        };
        let problem = format!(
            "{} ({} bytes up to the end of the file)",
            tail.reason,
            tail.end - tail.start
        );
        self.add(severity, name, Some(u64::from(tail.start)), offsets, problem);
    }

    /// Compares the indexes with their checksums. Those of the segment that is written to may be older than it.
    fn check_indexes(&mut self, segment: &Segment, base_offset: i64, is_active: bool) {
        let name = file_name(base_offset, sums::ENDING);
        let read = |ending| disk::read_file(&**self.disk, &segment.path_of(ending)).unwrap_or_default();
        let contents = [
            ("index", read("index")),
            ("timeindex", read("timeindex")),
            ("txnindex", read("txnindex")),
        ];
        let Some(sums) = Sums::read(&**self.disk, &segment.path_of(sums::ENDING)) else {
            if !is_active {
                let problem =
                    "the checksums of the indexes are missing or damaged; they are built anew at the next start";
                self.add(Severity::Mendable, &name, None, None, problem.to_owned());
            }
            return;
        };
        for ((ending, content), sum) in contents.iter().zip([sums.index, sums.timeindex, sums.txnindex]) {
            if crc32c::crc32c(content) != sum && !(is_active && *ending == "txnindex") {
                let problem = "it is missing or damaged; it is built anew at the next start".to_owned();
                self.add(Severity::Mendable, &file_name(base_offset, ending), None, None, problem);
            }
        }
    }

    fn check_end(&mut self, end_offset: i64) {
        let Some(known) = self.known else { return };
        let told = self
            .found
            .findings
            .iter()
            .any(|finding| finding.offsets.is_some_and(|(_, to)| to > end_offset));
        if end_offset < known.high_watermark && !told {
            let name = file_name(known.active_base, "log");
            self.missing(end_offset, known.high_watermark, &name, "the log ends before them");
        }
        let is_whole = !self
            .found
            .findings
            .iter()
            .any(|finding| finding.severity == Severity::Damage);
        if is_whole && known.last_crc.is_some() && known.last_crc != self.crc_at_mark {
            let problem = "the last batch is not the one that was written; were files exchanged?".to_owned();
            self.add(
                Severity::Damage,
                &file_name(known.active_base, "log"),
                None,
                None,
                problem,
            );
        }
    }

    /// Files that belong to no segment.
    fn others(&mut self, names: &[String]) {
        for name in names {
            if name.contains(".log.damaged-") {
                let problem = "bytes that an earlier start cut off; remove them when they are not needed".to_owned();
                self.add(Severity::Note, name, None, None, problem);
            } else if base_offset_of(name, "snapshot").is_some()
                && let Err(error) = snapshot::read(&**self.disk, &self.dir.join(name))
            {
                self.add(Severity::Mendable, name, None, None, error.to_string());
            } else if name == EPOCHS
                && let Err(error) = crate::checkpoint::read_epochs(&**self.disk, &self.dir.join(name))
            {
                self.add(Severity::Mendable, name, None, None, error.to_string());
            }
        }
    }

    fn missing(&mut self, from: i64, to: i64, file: &str, problem: &str) {
        let problem = format!("offsets {from} to {} are missing: {problem}", to - 1);
        self.add(Severity::Damage, file, None, Some((from, to)), problem);
    }

    fn add(
        &mut self,
        severity: Severity,
        file: &str,
        position: Option<u64>,
        offsets: Option<(i64, i64)>,
        problem: String,
    ) {
        self.found.findings.push(Finding {
            severity,
            file: file.to_owned(),
            position,
            offsets,
            problem,
        });
    }
}
