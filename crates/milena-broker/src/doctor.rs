//! The check of a data directory that no broker uses: damage, losses, and repairs that the next start will make.
//!
//! It writes nothing. The checks are those of a start, but all batches are read.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use milena_log::{
    StorageError,
    checkpoint::{self, CLEANER_OFFSETS, LOG_STARTS, RECOVERY_POINTS, TOPIC_ID},
    disk::{self, Disk, RealDisk},
    inspect::{Severity, inspect},
};
use milena_wire::Uuid;
use serde::Serialize;

use crate::{
    data_dir::{CLEAN, LOCK, partition_of_folder},
    log_ends::{self, Marks},
    metadata_log::{self, Metadata, TopicRecord, scan},
};

/// The content of a data directory, and its faults.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    pub data_dir: PathBuf,
    /// Whether the last run was shut down cleanly.
    pub clean_stop: bool,
    pub cluster_id: Option<String>,
    pub topics: usize,
    pub partitions: usize,
    pub segments: usize,
    pub bytes: u64,
    pub records: u64,
    pub findings: Vec<Finding>,
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub severity: Level,
    /// Topic and partition; `None` for findings about the whole directory.
    pub partition: Option<String>,
    /// The path of the file, relative to the data directory.
    pub file: String,
    pub position: Option<u64>,
    /// The first offset that is missing or cannot be read.
    pub from_offset: Option<i64>,
    /// The offset after the last one of them.
    pub to_offset: Option<i64>,
    pub problem: String,
}

/// The meaning of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Nothing is wrong.
    Note,
    /// The next start repairs it, and no record is missing.
    Mendable,
    /// Records or metadata are missing or cannot be read.
    Damage,
}

/// The reason why a directory cannot be checked.
#[derive(Debug, thiserror::Error)]
pub enum DoctorError {
    #[error("{} is used by a running broker; stop it first", path.display())]
    InUse { path: PathBuf },
    #[error("{} is no data directory: it has neither metadata.log nor folders of partitions", path.display())]
    NoDataDir { path: PathBuf },
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl Report {
    /// Whether nothing is missing and all can be read.
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Level::Damage)
    }
}

/// Checks a directory on the machine's own disk.
pub fn examine(dir: &Path) -> Result<Report, DoctorError> {
    examine_on(&(Arc::new(RealDisk) as Arc<dyn Disk>), dir)
}

/// Checks a directory on a disk.
pub fn examine_on(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Report, DoctorError> {
    let failed = |source| DoctorError::Io {
        path: dir.to_owned(),
        source,
    };
    let lock = dir.join(LOCK);
    // The lock is held to the end, so that no broker starts meanwhile. Without a lock file none is created.
    let _lock = match disk.exists(&lock).map_err(failed)?.then(|| disk.lock(&lock)) {
        Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(DoctorError::InUse { path: dir.to_owned() });
        }
        // A user who may only read cannot lock.
        lock => lock.and_then(Result::ok),
    };
    let entries = disk.list(dir).map_err(failed)?;
    let mut folders: Vec<String> = entries
        .iter()
        .filter(|entry| entry.is_dir && partition_of_folder(&entry.name).is_some())
        .map(|entry| entry.name.clone())
        .collect();
    folders.sort();
    let has_metadata = entries.iter().any(|entry| entry.name == metadata_log::FILE);
    if !has_metadata && folders.is_empty() {
        return Err(DoctorError::NoDataDir { path: dir.to_owned() });
    }
    let mut doctor = Doctor {
        disk,
        dir,
        marks: Marks::read(&**disk, dir).map_err(failed)?,
        report: Report {
            data_dir: dir.to_owned(),
            clean_stop: entries.iter().any(|entry| entry.name == CLEAN),
            ..Report::default()
        },
    };
    let metadata = doctor.metadata(has_metadata, &folders).map_err(failed)?;
    doctor.small_files(&entries);
    doctor.topics(&metadata, &folders)?;
    Ok(doctor.report)
}

struct Doctor<'a> {
    disk: &'a Arc<dyn Disk>,
    dir: &'a Path,
    marks: Marks,
    report: Report,
}

impl Doctor<'_> {
    fn metadata(&mut self, exists: bool, folders: &[String]) -> io::Result<Metadata> {
        let mut metadata = Metadata::default();
        let content = match exists {
            true => disk::read_file(&**self.disk, &self.dir.join(metadata_log::FILE))?,
            false => vec![],
        };
        let scan = match scan(&content) {
            Ok(scan) => scan,
            Err(error) => {
                let problem = format!("it has an entry that this version does not know: {error}");
                self.add(Level::Damage, metadata_log::FILE, None, problem);
                return Ok(metadata);
            }
        };
        if scan.changes.is_empty() && !folders.is_empty() {
            let problem = format!(
                "it has no entries, but there are {} folders of partitions",
                folders.len()
            );
            self.add(Level::Damage, metadata_log::FILE, None, problem);
        }
        for (start, end) in &scan.damage {
            let problem = format!(
                "{} bytes are damaged; {} whole entries follow",
                end - start,
                scan.entries_behind
            );
            self.add(Level::Damage, metadata_log::FILE, Some(*start as u64), problem);
        }
        if let Some(start) = scan.torn {
            let problem = "an entry that was being written when the broker ended; it was never acknowledged".to_owned();
            self.add(Level::Mendable, metadata_log::FILE, Some(start as u64), problem);
        }
        for change in scan.changes {
            metadata.apply(change);
        }
        self.report.cluster_id.clone_from(&metadata.cluster_id);
        self.report.topics = metadata.topics.len();
        Ok(metadata)
    }

    fn small_files(&mut self, entries: &[disk::DirEntry]) {
        for name in [RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS] {
            if let Err(error) = checkpoint::read_offsets(&**self.disk, &self.dir.join(name)) {
                self.add(Level::Mendable, name, None, error.to_string());
            }
        }
        if self.marks.damaged > 0 {
            let problem = format!(
                "{} entries are damaged; Kafka's checkpoints stand in for them",
                self.marks.damaged
            );
            self.add(Level::Mendable, log_ends::FILE, None, problem);
        }
        for entry in entries.iter().filter(|entry| entry.name.contains(".damaged-")) {
            let problem = "bytes that an earlier start cut off; remove them when they are not needed".to_owned();
            self.add(Level::Note, &entry.name, None, problem);
        }
    }

    fn topics(&mut self, metadata: &Metadata, folders: &[String]) -> Result<(), DoctorError> {
        let mut known = BTreeSet::new();
        for (name, topic) in &metadata.topics {
            let Ok(id) = topic.id.parse::<Uuid>() else {
                let problem = format!("the id of topic {name} cannot be read");
                self.add(Level::Damage, metadata_log::FILE, None, problem);
                continue;
            };
            for index in 0..topic.partitions {
                let folder = format!("{name}-{index}");
                self.partition(&folder, (id, index), topic)?;
                known.insert(folder);
            }
        }
        for folder in folders.iter().filter(|folder| !known.contains(*folder)) {
            let id = checkpoint::read_topic_id(&**self.disk, &self.dir.join(folder).join(TOPIC_ID))
                .ok()
                .flatten();
            let is_deleted = id.is_some_and(|id| metadata.deleted.contains(&id.to_string()));
            let (level, problem) = match is_deleted {
                true => (Level::Note, "files left by a deleted topic"),
                false => (Level::Damage, "records of a topic that metadata.log does not name"),
            };
            self.add(level, folder, None, problem.to_owned());
        }
        Ok(())
    }

    fn partition(&mut self, folder: &str, key: (Uuid, i32), topic: &TopicRecord) -> Result<(), DoctorError> {
        self.report.partitions += 1;
        let dir = self.dir.join(folder);
        if !self.disk.exists(&dir).unwrap_or(true) && !self.marks.of.contains_key(&key) {
            // A partition that was never written to has no folder.
            return Ok(());
        }
        match checkpoint::read_topic_id(&**self.disk, &dir.join(TOPIC_ID)) {
            Ok(Some(found)) if found != key.0 => {
                let problem = format!("it names the topic id {found}, not {}", key.0);
                self.add(Level::Damage, &format!("{folder}/{TOPIC_ID}"), None, problem);
            }
            Err(error) => self.add(
                Level::Mendable,
                &format!("{folder}/{TOPIC_ID}"),
                None,
                error.to_string(),
            ),
            Ok(_) => {}
        }
        let policy = topic.configs.get("cleanup.policy");
        let compacted = policy.is_some_and(|policy| policy.contains("compact"));
        let found = inspect(self.disk, &dir, compacted, self.marks.of.get(&key).copied())?;
        self.report.segments += found.segments;
        self.report.bytes += found.bytes;
        self.report.records += found.records;
        self.report
            .findings
            .extend(found.findings.into_iter().map(|finding| Finding {
                severity: match finding.severity {
                    Severity::Note => Level::Note,
                    Severity::Mendable => Level::Mendable,
                    Severity::Damage => Level::Damage,
                },
                partition: Some(folder.to_owned()),
                file: format!("{folder}/{}", finding.file),
                position: finding.position,
                from_offset: finding.offsets.map(|(from, _)| from),
                to_offset: finding.offsets.map(|(_, to)| to),
                problem: finding.problem,
            }));
        Ok(())
    }

    fn add(&mut self, severity: Level, file: &str, position: Option<u64>, problem: String) {
        self.report.findings.push(Finding {
            severity,
            partition: None,
            file: file.to_owned(),
            position,
            from_offset: None,
            to_offset: None,
            problem,
        });
    }
}
