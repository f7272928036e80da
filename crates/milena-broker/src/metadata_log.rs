//! The metadata log: topics, settings, producer ids. A small log that is synced with every change.
//!
//! ```text
//! each change: length u32, CRC-32C u32 of the rest, the change as JSON
//! ```
//!
//! A change that is cut short at the end was never acknowledged and is dropped. Any other damage is an error, because changes
//! behind it would be lost. When most of the log is history it is replaced by a snapshot, which is a log too: the changes
//! that lead to the current state.

mod change;
mod scan;

pub(crate) use change::{AclRecord, Change, Metadata, TopicRecord};
pub(crate) use scan::{Scan, scan};

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::{Buf, BufMut};
use milena_invariant::invariant;
use milena_log::disk::{self, Disk, DiskFile};
use milena_wire::Uuid;

/// The name of the file in the data directory.
pub(crate) const FILE: &str = "metadata.log";
/// The log is not replaced by a snapshot below this size.
const SNAPSHOT_FROM: u64 = 1 << 20;
const HEADER_SIZE: usize = 8;

/// The log, open for changes.
#[derive(Debug)]
pub(crate) struct MetadataLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    size: u64,
    size_after_snapshot: u64,
    /// Whether the end of the file may have a part of an entry whose write failed.
    torn: bool,
    metadata: Metadata,
}

/// A failure to read or write the metadata.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{} is damaged at byte {position} of {size}: {entries} whole entries follow, and topics would be forgotten; restore \
         the file from a copy, or start once with milena.recovery=accept-loss, which keeps a copy of the file and drops the \
         damaged entries only",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        position: usize,
        size: usize,
        /// The number of whole entries behind the damage.
        entries: usize,
    },
    #[error(
        "{} is {state}, but there are {folders} folders of partitions beside it, such as {example}: this is no empty \
         cluster; restore the file from a copy, or choose another directory",
        path.display()
    )]
    Missing {
        path: PathBuf,
        state: &'static str,
        folders: usize,
        example: String,
    },
    #[error(
        "{} does not name the topics of {folders} folders of partitions that were in use, such as {example}: entries at its end \
         are missing; restore the file from a copy, or start once with milena.recovery=accept-loss to go on without these \
         topics",
        path.display()
    )]
    Forgotten {
        path: PathBuf,
        folders: usize,
        example: String,
    },
    #[error(
        "{} has no cluster id, although it has entries; restore the file from a copy, or start once with \
         milena.recovery=accept-loss to get a new cluster id",
        path.display()
    )]
    NoClusterId { path: PathBuf },
}

/// Evidence in the files beside the metadata log of the topics that it must name.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Evidence<'a> {
    /// Folders of partitions.
    pub(crate) folders: &'a [String],
    /// Those of them that the previous run had in use, each with the id of its topic.
    pub(crate) in_use: &'a [(String, Uuid)],
}

/// Whether a loss that was found may be accepted to get the broker started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLoss {
    Refuse,
    Accept,
}

impl MetadataLog {
    /// Opens the log, if it agrees with the evidence beside it.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        evidence: Evidence<'_>,
        on_loss: OnLoss,
    ) -> Result<Self, MetadataError> {
        let path = dir.join(FILE);
        let failed = |action| {
            let path = path.clone();
            move |source| MetadataError::Io { action, path, source }
        };
        let exists = disk.exists(&path).map_err(failed("look for"))?;
        let content = match exists {
            true => disk::read_file(&*disk, &path).map_err(failed("read"))?,
            false => vec![],
        };
        let scan = scan(&content).map_err(|error| {
            // The entry is whole, so it is not damage, and cutting it off would lose the entries behind it too.
            let newer =
                format!("it has a change that this version does not know; was it written by a newer one? ({error})");
            failed("read")(std::io::Error::other(newer))
        })?;
        let mut metadata = Metadata::default();
        for change in &scan.changes {
            metadata.apply(change.clone());
        }
        check(&path, &content, &scan, evidence.folders, on_loss)?;
        if on_loss == OnLoss::Refuse {
            check_topics(&path, &metadata, evidence.in_use)?;
        }
        if !exists {
            disk.create(&path).map_err(failed("create"))?;
            disk.sync_dir(dir).map_err(failed("create"))?;
        }
        mend(&*disk, &path, &content, &scan).map_err(failed("mend"))?;
        let file = disk.open(&path).map_err(failed("open"))?;
        let size = file.size().map_err(failed("measure"))?;
        Ok(Self {
            disk,
            path,
            file,
            size,
            size_after_snapshot: size,
            torn: false,
            metadata,
        })
    }

    /// The size of the log in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Appends changes and syncs them. After a crash in between, a prefix of them may have survived.
    pub(crate) fn append(&mut self, changes: Vec<Change>) -> Result<(), MetadataError> {
        let mut bytes = vec![];
        for change in &changes {
            encode(&mut bytes, change);
        }
        if self.torn {
            // A shorter entry in its place would leave a rest of it, which the next start would take for damage.
            let cut = self.file.truncate(self.size);
            cut.map_err(|source| self.failed("truncate", source))?;
            self.torn = false;
        }
        let written = self
            .file
            .write_at(&bytes, &[], self.size)
            .and_then(|()| self.file.sync());
        if let Err(source) = written {
            self.torn = self.file.truncate(self.size).is_err();
            return Err(self.failed("write", source));
        }
        self.size += bytes.len() as u64;
        for change in changes {
            self.metadata.apply(change);
        }
        if self.size > SNAPSHOT_FROM.max(4 * self.size_after_snapshot) {
            self.snapshot()?;
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<(), MetadataError> {
        let mut bytes = vec![];
        for change in self.metadata.changes() {
            encode(&mut bytes, &change);
        }
        if !invariant!(
            read_back(&bytes).as_ref() == Some(&self.metadata),
            "a_snapshot_reads_back_to_the_same_metadata"
        ) {
            // The log stays as it is, and the next snapshot is tried when it has grown again.
            self.size_after_snapshot = self.size;
            return Ok(());
        }
        let replaced = disk::replace_file(&*self.disk, &self.path, &bytes).and_then(|()| self.disk.open(&self.path));
        self.file = replaced.map_err(|source| self.failed("replace", source))?;
        self.size = bytes.len() as u64;
        self.size_after_snapshot = self.size;
        Ok(())
    }

    fn failed(&self, action: &'static str, source: std::io::Error) -> MetadataError {
        MetadataError::Io {
            action,
            path: self.path.clone(),
            source,
        }
    }
}

/// Refuses a log that has lost entries, unless that is accepted.
fn check(path: &Path, content: &[u8], scan: &Scan, folders: &[String], on_loss: OnLoss) -> Result<(), MetadataError> {
    let path = path.to_owned();
    if let (true, Some(example)) = (scan.changes.is_empty(), folders.first()) {
        let state = if content.is_empty() {
            "missing or empty"
        } else {
            "unreadable"
        };
        return Err(MetadataError::Missing {
            path,
            state,
            folders: folders.len(),
            example: example.clone(),
        });
    }
    if on_loss == OnLoss::Accept {
        return Ok(());
    }
    if let Some((position, _)) = scan.damage.first() {
        return Err(MetadataError::Damaged {
            path,
            position: *position,
            size: content.len(),
            entries: scan.entries_behind,
        });
    }
    let has_id = scan
        .changes
        .iter()
        .any(|change| matches!(change, Change::Cluster { .. }));
    match has_id || scan.changes.is_empty() {
        true => Ok(()),
        false => Err(MetadataError::NoClusterId { path }),
    }
}

/// Refuses a log that does not know topics which were in use.
fn check_topics(path: &Path, metadata: &Metadata, in_use: &[(String, Uuid)]) -> Result<(), MetadataError> {
    let is_known = |id: &String| metadata.deleted.contains(id) || metadata.topics.values().any(|topic| topic.id == *id);
    let mut forgotten = in_use.iter().filter(|(_, id)| !is_known(&id.to_string()));
    match forgotten.next() {
        None => Ok(()),
        Some((example, _)) => Err(MetadataError::Forgotten {
            path: path.to_owned(),
            folders: 1 + forgotten.count(),
            example: example.clone(),
        }),
    }
}

/// Removes damaged and incomplete entries, and keeps a copy of the file.
fn mend(disk: &dyn Disk, path: &Path, content: &[u8], scan: &Scan) -> std::io::Result<()> {
    if let Some(position) = scan.torn {
        let kept = keep(disk, path, position, content.get(position..).unwrap_or_default())?;
        tracing::warn!(
            event = "metadata_torn_write",
            file = %path.display(),
            position,
            bytes = content.len() - position,
            kept = %kept.display(),
            "metadata: an entry that was being written when the broker ended was cut off; it was never acknowledged"
        );
    }
    if let Some((position, _)) = scan.damage.first() {
        let kept = keep(disk, path, *position, content)?;
        tracing::error!(
            event = "metadata_loss_accepted",
            file = %path.display(),
            position,
            damaged_bytes = scan.damage.iter().map(|(start, end)| end - start).sum::<usize>(),
            entries_kept = scan.changes.len(),
            kept = %kept.display(),
            "metadata: damaged entries were dropped, because milena.recovery is accept-loss; a copy of the file is kept"
        );
    }
    if scan.torn.is_none() && scan.damage.is_empty() {
        return Ok(());
    }
    let mut good = vec![];
    let mut from = 0;
    for (start, end) in &scan.damage {
        good.extend_from_slice(content.get(from..*start).unwrap_or_default());
        from = *end;
    }
    good.extend_from_slice(content.get(from..scan.end.max(from)).unwrap_or_default());
    disk::replace_file(disk, path, &good)
}

/// Writes a copy of bytes beside the log, under a name that no file has.
fn keep(disk: &dyn Disk, path: &Path, position: usize, bytes: &[u8]) -> std::io::Result<PathBuf> {
    let first = disk::with_suffix(path, &format!(".damaged-{position}"));
    let mut kept = first.clone();
    let mut number = 2;
    while disk.exists(&kept)? {
        kept = disk::with_suffix(&first, &format!(".{number}"));
        number += 1;
    }
    disk::replace_file(disk, &kept, bytes)?;
    Ok(kept)
}

fn encode(bytes: &mut Vec<u8>, change: &Change) {
    // Maps of plain text can always be encoded as JSON.
    let json = serde_json::to_vec(change).unwrap_or_default();
    bytes.put_u32(json.len() as u32);
    bytes.put_u32(crc32c::crc32c(&json));
    bytes.extend_from_slice(&json);
}

/// The metadata that the entries lead to; `None` if not all of them can be read.
fn read_back(mut bytes: &[u8]) -> Option<Metadata> {
    let mut metadata = Metadata::default();
    while !bytes.is_empty() {
        metadata.apply(serde_json::from_slice(next_whole(&mut bytes)?).ok()?);
    }
    Some(metadata)
}

/// The next change, as JSON; `None` where the log ends or is damaged.
fn next_whole<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (mut header, after) = rest.split_at_checked(HEADER_SIZE)?;
    let length = header.get_u32() as usize;
    let crc = header.get_u32();
    let (json, after) = after.split_at_checked(length)?;
    if crc32c::crc32c(json) != crc {
        return None;
    }
    *rest = after;
    Some(json)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use milena_log::disk::MemoryDisk;
    use milena_machines::sasl::ScramCredential;

    use super::*;
    use crate::auth::StoredCredential;

    fn topic(name: &str, partitions: i32) -> Change {
        Change::Topic {
            name: name.to_owned(),
            id: "id".to_owned(),
            partitions,
            replication_factor: 3,
            configs: BTreeMap::from([("retention.ms".to_owned(), "1".to_owned())]),
        }
    }

    fn acls(ids: &[&str]) -> Change {
        let acl = AclRecord {
            resource_type: "TOPIC".to_owned(),
            resource_name: "orders".to_owned(),
            pattern_type: "LITERAL".to_owned(),
            principal: "User:alice".to_owned(),
            host: "*".to_owned(),
            operation: "READ".to_owned(),
            permission: "ALLOW".to_owned(),
        };
        Change::Acls {
            added: ids.iter().map(|id| ((*id).to_owned(), acl.clone())).collect(),
        }
    }

    fn group(name: &str, timeout: &str) -> Change {
        Change::GroupConfigs {
            group: name.to_owned(),
            configs: BTreeMap::from([("consumer.session.timeout.ms".to_owned(), timeout.to_owned())]),
        }
    }

    fn scram(user: &str, mechanism: &str) -> Change {
        let credential = ScramCredential {
            salt: "salt".into(),
            stored_key: "stored".into(),
            server_key: "server".into(),
            iterations: 4096,
        };
        Change::ScramCredential {
            user: user.to_owned(),
            mechanism: mechanism.to_owned(),
            credential: StoredCredential::new(&credential),
        }
    }

    fn open(disk: Arc<dyn Disk>) -> Result<MetadataLog, MetadataError> {
        MetadataLog::open(disk, Path::new("/data"), Evidence::default(), OnLoss::Refuse)
    }

    /// The content of a log with a cluster id and three topics, and where each entry begins.
    fn content() -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut starts) = (vec![], vec![]);
        let cluster = Change::Cluster { id: "c".to_owned() };
        for change in [cluster, topic("a", 1), topic("b", 2), topic("c", 3)] {
            starts.push(bytes.len());
            encode(&mut bytes, &change);
        }
        (bytes, starts)
    }

    fn disk_with(content: &[u8]) -> (MemoryDisk, Arc<dyn Disk>) {
        let (memory, disk) = disk();
        disk::replace_file(&memory, &Path::new("/data").join(FILE), content).unwrap();
        (memory, disk)
    }

    #[test]
    fn a_flipped_bit_anywhere_refuses_the_start_and_changes_no_file() {
        let (good, starts) = content();
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 0x04;
            let (memory, disk) = disk_with(&bad);
            let error = open(disk).unwrap_err();
            let entry = starts.iter().rposition(|start| *start <= place).unwrap();
            match error {
                MetadataError::Damaged { position, entries, .. } => {
                    assert_eq!((position, entries), (starts[entry], 3 - entry), "byte {place}");
                }
                error => panic!("byte {place}: {error}"),
            }
            let path = Path::new("/data").join(FILE);
            assert_eq!(disk::read_file(&memory, &path).unwrap(), bad, "byte {place}");
            assert_eq!(memory.list(Path::new("/data")).unwrap().len(), 1, "byte {place}");
        }
    }

    #[test]
    fn an_accepted_loss_costs_the_damaged_entry_and_keeps_the_file() {
        let (good, starts) = content();
        let mut bad = good.clone();
        bad[starts[2] + 20] ^= 1;
        let (memory, disk) = disk_with(&bad);
        let log = MetadataLog::open(disk, Path::new("/data"), Evidence::default(), OnLoss::Accept).unwrap();
        assert_eq!(log.metadata().topics.keys().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(log.metadata().cluster_id.as_deref(), Some("c"));
        let kept = format!("/data/metadata.log.damaged-{}", starts[2]);
        assert_eq!(disk::read_file(&memory, Path::new(&kept)).unwrap(), bad);
        let again = open(Arc::new(memory)).unwrap();
        assert_eq!(again.metadata(), log.metadata());
    }

    #[test]
    fn partitions_without_metadata_are_no_empty_cluster() {
        let folders = ["letters-0".to_owned(), "letters-1".to_owned()];
        let (good, _) = content();
        for content in [None, Some(&[][..]), Some(&good[..20])] {
            let (_, disk) = match content {
                None => disk(),
                Some(content) => disk_with(content),
            };
            let evidence = Evidence {
                folders: &folders,
                in_use: &[],
            };
            let error = MetadataLog::open(disk, Path::new("/data"), evidence, OnLoss::Refuse).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, MetadataError::Missing { folders: 2, .. }), "{text}");
            assert!(text.contains("letters-0") && text.contains("restore"), "{text}");
        }
    }

    #[test]
    fn what_a_failed_write_has_left_is_no_damage_later() {
        let (memory, disk) = disk();
        let mut log = open(Arc::clone(&disk)).unwrap();
        log.append(vec![Change::Cluster { id: "c".to_owned() }]).unwrap();
        memory.set_room(Some(30));
        assert!(log.append(vec![topic("long", 1), topic("longer", 1)]).is_err());
        memory.set_room(None);
        log.append(vec![Change::LeaderEpoch { epoch: 1 }]).unwrap();
        let again = open(disk).unwrap();
        assert_eq!(again.metadata(), log.metadata());
    }

    fn disk() -> (MemoryDisk, Arc<dyn Disk>) {
        let disk = MemoryDisk::crashable();
        disk.create_dir(Path::new("/data")).unwrap();
        (disk.clone(), Arc::new(disk))
    }

    #[test]
    fn what_was_appended_survives_a_power_cut() {
        let (memory, disk) = disk();
        let mut log = open(disk).unwrap();
        let cluster = Change::Cluster { id: "c".to_owned() };
        log.append(vec![cluster, topic("a", 1), topic("b", 2)]).unwrap();
        log.append(vec![
            Change::TopicDeleted { name: "a".to_owned() },
            Change::ProducerIds { next: 1000 },
        ])
        .unwrap();
        let after = memory.after_power_cut(|_| 0);
        let log = open(Arc::new(after)).unwrap();
        assert_eq!(log.metadata().topics.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(log.metadata().next_producer_id, 1000);
    }

    #[test]
    fn a_change_cut_short_never_happened() {
        let (memory, disk) = disk();
        let mut log = open(disk).unwrap();
        log.append(vec![Change::Cluster { id: "c".to_owned() }, topic("a", 1)])
            .unwrap();
        let whole = log.size;
        log.append(vec![topic("b", 2)]).unwrap();
        let path = Path::new("/data").join(FILE);
        let content = disk::read_file(&memory, &path).unwrap();
        for length in whole as usize..content.len() {
            let (memory, disk) = self::disk();
            disk::replace_file(&memory, &path, &content[..length]).unwrap();
            let mut log = open(Arc::clone(&disk)).unwrap();
            assert_eq!(log.metadata().topics.len(), 1);
            log.append(vec![topic("c", 3)]).unwrap();
            let log = open(disk).unwrap();
            assert_eq!(log.metadata().topics.keys().collect::<Vec<_>>(), ["a", "c"]);
            let kept = Path::new("/data").join(format!("metadata.log.damaged-{whole}"));
            let expected = Some(content[whole as usize..length].to_vec()).filter(|cut| !cut.is_empty());
            assert_eq!(disk::read_file(&memory, &kept).ok(), expected);
        }
    }

    #[test]
    fn a_change_of_a_newer_version_is_told_and_not_cut_off() {
        let (memory, disk) = disk();
        let mut log = open(Arc::clone(&disk)).unwrap();
        log.append(vec![topic("a", 1)]).unwrap();
        let path = Path::new("/data").join(FILE);
        let mut content = disk::read_file(&memory, &path).unwrap();
        let json = br#"{"change":"from_the_future"}"#;
        content.put_u32(json.len() as u32);
        content.put_u32(crc32c::crc32c(json));
        content.extend_from_slice(json);
        disk::replace_file(&memory, &path, &content).unwrap();
        let error = open(disk).unwrap_err().to_string();
        assert!(
            error.contains("written by a newer one") && error.contains("from_the_future"),
            "{error}"
        );
        assert_eq!(disk::read_file(&memory, &path).unwrap(), content);
    }

    /// The quotas of the default client id of a user.
    fn quotas(user: &str, quotas: &[(&str, &str)]) -> Change {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Change::ClientQuotas {
            entity: BTreeMap::from([
                ("user".to_owned(), Some(user.to_owned())),
                ("client-id".to_owned(), None),
            ]),
            quotas: quotas.iter().map(owned).collect(),
        }
    }

    #[test]
    fn a_snapshot_leads_to_the_same() {
        let (_, disk) = disk();
        let mut log = open(Arc::clone(&disk)).unwrap();
        log.append(vec![
            Change::Cluster { id: "c".to_owned() },
            topic("a", 1),
            group("readers", "50000"),
            group("others", "50000"),
            Change::ClientMetrics {
                name: "slow".to_owned(),
                configs: BTreeMap::from([("interval.ms".to_owned(), "1000".to_owned())]),
            },
            quotas(
                "alice",
                &[("producer_byte_rate", "1024"), ("request_percentage", "0.1")],
            ),
            quotas("bob", &[("consumer_byte_rate", "9007199254740993")]),
            Change::Features {
                levels: BTreeMap::from([("group.version".to_owned(), 0)]),
                epoch: 1,
            },
            Change::LeaderEpoch { epoch: 4 },
            scram("alice", "SCRAM-SHA-256"),
            scram("alice", "SCRAM-SHA-512"),
            scram("bob", "SCRAM-SHA-512"),
            Change::UnknownUserKey {
                key: "a2V5".to_owned().into(),
            },
            Change::ScramCredentialDeleted {
                user: "bob".to_owned(),
                mechanism: "SCRAM-SHA-512".to_owned(),
            },
            acls(&["1", "2"]),
            acls(&["3"]),
            Change::AclsDeleted {
                ids: vec!["2".to_owned(), "4".to_owned()],
            },
        ])
        .unwrap();
        log.append(vec![Change::Partitions {
            name: "a".to_owned(),
            count: 9,
        }])
        .unwrap();
        log.append(vec![
            Change::GroupConfigs {
                group: "others".to_owned(),
                configs: BTreeMap::new(),
            },
            quotas("bob", &[]),
        ])
        .unwrap();
        let before = log.metadata().clone();
        assert_eq!(before.group_configs.keys().collect::<Vec<_>>(), ["readers"]);
        assert_eq!(before.quotas.iter().count(), 1);
        assert_eq!(before.scram_users.keys().collect::<Vec<_>>(), ["alice"]);
        assert_eq!(before.scram_users["alice"].len(), 2);
        assert_eq!(before.acls.keys().collect::<Vec<_>>(), ["1", "3"]);
        log.snapshot().unwrap();
        log.append(vec![topic("b", 1)]).unwrap();
        let log = open(disk).unwrap();
        let mut expected = before;
        expected.apply(topic("b", 1));
        assert_eq!(log.metadata(), &expected);
    }
}
