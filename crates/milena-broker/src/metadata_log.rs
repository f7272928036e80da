//! What the broker must not forget: topics, settings, producer ids. One small log that is synced with every change.
//!
//! ```text
//! each change: length u32, CRC-32C u32 of what follows, the change as JSON
//! ```
//!
//! A change that is cut short or damaged at the end never happened: nobody was told that it did. When the log is mostly
//! history it is replaced by a snapshot, which is a log too: the changes that lead to the present.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::{Buf, BufMut};
use milena_log::disk::{self, Disk, DiskFile};
use serde::{Deserialize, Serialize};

use crate::config::FinalizedFeatures;

/// The name of the file in the data directory.
const FILE: &str = "metadata.log";
/// Below this size history does not matter.
const SNAPSHOT_FROM: u64 = 1 << 20;
const HEADER_SIZE: usize = 8;

/// One change. The names are on disk, so they stay as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(crate) enum Change {
    Cluster {
        id: String,
    },
    Topic {
        name: String,
        /// As Kafka prints it.
        id: String,
        partitions: i32,
        replication_factor: i16,
        configs: BTreeMap<String, String>,
    },
    TopicDeleted {
        name: String,
    },
    Partitions {
        name: String,
        count: i32,
    },
    TopicConfigs {
        name: String,
        configs: BTreeMap<String, String>,
    },
    /// Settings made at run time, of this broker and of all.
    BrokerConfigs {
        dynamic: BTreeMap<String, String>,
        dynamic_default: BTreeMap<String, String>,
    },
    /// Settings of a single group; without any it is as if there had never been some.
    GroupConfigs {
        group: String,
        configs: BTreeMap<String, String>,
    },
    /// Settings of a client metrics subscription; without any there is no subscription.
    ClientMetrics {
        name: String,
        configs: BTreeMap<String, String>,
    },
    /// Levels of features, and the number of changes to them.
    Features {
        levels: BTreeMap<String, i16>,
        epoch: i64,
    },
    /// Producer ids below this may have been given out.
    ProducerIds {
        next: i64,
    },
    /// The leader epoch of all partitions, larger after every unclean end.
    LeaderEpoch {
        epoch: i32,
    },
}

/// What all changes lead to.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Metadata {
    pub(crate) cluster_id: Option<String>,
    pub(crate) topics: BTreeMap<String, TopicRecord>,
    pub(crate) dynamic: BTreeMap<String, String>,
    pub(crate) dynamic_default: BTreeMap<String, String>,
    pub(crate) group_configs: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) client_metrics: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) features: FinalizedFeatures,
    pub(crate) next_producer_id: i64,
    pub(crate) leader_epoch: i32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopicRecord {
    pub(crate) id: String,
    pub(crate) partitions: i32,
    pub(crate) replication_factor: i16,
    pub(crate) configs: BTreeMap<String, String>,
}

impl Metadata {
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Cluster { id } => self.cluster_id = Some(id),
            Change::Topic {
                name,
                id,
                partitions,
                replication_factor,
                configs,
            } => {
                let record = TopicRecord {
                    id,
                    partitions,
                    replication_factor,
                    configs,
                };
                self.topics.insert(name, record);
            }
            Change::TopicDeleted { name } => drop(self.topics.remove(&name)),
            Change::Partitions { name, count } => {
                if let Some(topic) = self.topics.get_mut(&name) {
                    topic.partitions = count;
                }
            }
            Change::TopicConfigs { name, configs } => {
                if let Some(topic) = self.topics.get_mut(&name) {
                    topic.configs = configs;
                }
            }
            Change::BrokerConfigs {
                dynamic,
                dynamic_default,
            } => (self.dynamic, self.dynamic_default) = (dynamic, dynamic_default),
            Change::GroupConfigs { group, configs } if configs.is_empty() => drop(self.group_configs.remove(&group)),
            Change::GroupConfigs { group, configs } => drop(self.group_configs.insert(group, configs)),
            Change::ClientMetrics { name, configs } if configs.is_empty() => drop(self.client_metrics.remove(&name)),
            Change::ClientMetrics { name, configs } => drop(self.client_metrics.insert(name, configs)),
            Change::Features { levels, epoch } => self.features = FinalizedFeatures { levels, epoch },
            Change::ProducerIds { next } => self.next_producer_id = next,
            Change::LeaderEpoch { epoch } => self.leader_epoch = epoch,
        }
    }

    /// The fewest changes that lead here.
    fn changes(&self) -> Vec<Change> {
        let mut changes: Vec<Change> = self
            .cluster_id
            .iter()
            .map(|id| Change::Cluster { id: id.clone() })
            .collect();
        changes.extend(self.topics.iter().map(|(name, topic)| Change::Topic {
            name: name.clone(),
            id: topic.id.clone(),
            partitions: topic.partitions,
            replication_factor: topic.replication_factor,
            configs: topic.configs.clone(),
        }));
        changes.push(Change::BrokerConfigs {
            dynamic: self.dynamic.clone(),
            dynamic_default: self.dynamic_default.clone(),
        });
        changes.extend(self.group_configs.iter().map(|(group, configs)| Change::GroupConfigs {
            group: group.clone(),
            configs: configs.clone(),
        }));
        changes.extend(self.client_metrics.iter().map(|(name, configs)| Change::ClientMetrics {
            name: name.clone(),
            configs: configs.clone(),
        }));
        if self.features.epoch > 0 {
            changes.push(Change::Features {
                levels: self.features.levels.clone(),
                epoch: self.features.epoch,
            });
        }
        changes.push(Change::ProducerIds {
            next: self.next_producer_id,
        });
        changes.push(Change::LeaderEpoch {
            epoch: self.leader_epoch,
        });
        changes
    }
}

/// The log, open for changes.
#[derive(Debug)]
pub(crate) struct MetadataLog {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    size: u64,
    size_after_snapshot: u64,
    metadata: Metadata,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct MetadataError {
    pub action: &'static str,
    pub path: PathBuf,
    pub source: std::io::Error,
}

impl MetadataLog {
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, MetadataError> {
        let path = dir.join(FILE);
        let failed = |action| {
            let path = path.clone();
            move |source| MetadataError { action, path, source }
        };
        let (file, content) = if disk.exists(&path).map_err(failed("look for"))? {
            let content = disk::read_file(&*disk, &path).map_err(failed("read"))?;
            (disk.open(&path).map_err(failed("open"))?, content)
        } else {
            let file = disk.create(&path).map_err(failed("create"))?;
            disk.sync_dir(dir).map_err(failed("create"))?;
            (file, vec![])
        };
        let mut metadata = Metadata::default();
        let mut rest = &content[..];
        while let Some(json) = next_whole(&mut rest) {
            // It was written whole, so it is not damage: cutting it off would lose what came after it too.
            let change = serde_json::from_slice(json).map_err(|error| {
                let newer = format!(
                    "it has a change that this version does not know; was it written by a newer one? ({error})"
                );
                failed("read")(std::io::Error::other(newer))
            })?;
            metadata.apply(change);
        }
        let size = (content.len() - rest.len()) as u64;
        // A change that was being written when the process ended.
        file.truncate(size).map_err(failed("truncate"))?;
        Ok(Self {
            disk,
            path,
            file,
            size,
            size_after_snapshot: size,
            metadata,
        })
    }

    /// The size of the log in bytes: how far it has been written.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Makes changes durable, all of them or, after a crash, those before some point. When this returns they hold.
    pub(crate) fn append(&mut self, changes: Vec<Change>) -> Result<(), MetadataError> {
        let mut bytes = vec![];
        for change in &changes {
            encode(&mut bytes, change);
        }
        let written = self
            .file
            .write_at(&bytes, &[], self.size)
            .and_then(|()| self.file.sync());
        written.map_err(|source| self.failed("write", source))?;
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
        let replaced = disk::replace_file(&*self.disk, &self.path, &bytes).and_then(|()| self.disk.open(&self.path));
        self.file = replaced.map_err(|source| self.failed("replace", source))?;
        self.size = bytes.len() as u64;
        self.size_after_snapshot = self.size;
        Ok(())
    }

    fn failed(&self, action: &'static str, source: std::io::Error) -> MetadataError {
        MetadataError {
            action,
            path: self.path.clone(),
            source,
        }
    }
}

fn encode(bytes: &mut Vec<u8>, change: &Change) {
    // Plain text in maps always has a JSON form.
    let json = serde_json::to_vec(change).unwrap_or_default();
    bytes.put_u32(json.len() as u32);
    bytes.put_u32(crc32c::crc32c(&json));
    bytes.extend_from_slice(&json);
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
    use milena_log::disk::MemoryDisk;

    use super::*;

    fn topic(name: &str, partitions: i32) -> Change {
        Change::Topic {
            name: name.to_owned(),
            id: "id".to_owned(),
            partitions,
            replication_factor: 3,
            configs: BTreeMap::from([("retention.ms".to_owned(), "1".to_owned())]),
        }
    }

    fn group(name: &str, timeout: &str) -> Change {
        Change::GroupConfigs {
            group: name.to_owned(),
            configs: BTreeMap::from([("consumer.session.timeout.ms".to_owned(), timeout.to_owned())]),
        }
    }

    fn disk() -> (MemoryDisk, Arc<dyn Disk>) {
        let disk = MemoryDisk::crashable();
        disk.create_dir(Path::new("/data")).unwrap();
        (disk.clone(), Arc::new(disk))
    }

    #[test]
    fn what_was_appended_survives_a_power_cut() {
        let (memory, disk) = disk();
        let mut log = MetadataLog::open(disk, Path::new("/data")).unwrap();
        log.append(vec![topic("a", 1), topic("b", 2)]).unwrap();
        log.append(vec![
            Change::TopicDeleted { name: "a".to_owned() },
            Change::ProducerIds { next: 1000 },
        ])
        .unwrap();
        let after = memory.after_power_cut(|_| 0);
        let log = MetadataLog::open(Arc::new(after), Path::new("/data")).unwrap();
        assert_eq!(log.metadata().topics.keys().collect::<Vec<_>>(), ["b"]);
        assert_eq!(log.metadata().next_producer_id, 1000);
    }

    #[test]
    fn a_change_cut_short_never_happened() {
        let (memory, disk) = disk();
        let mut log = MetadataLog::open(disk, Path::new("/data")).unwrap();
        log.append(vec![topic("a", 1)]).unwrap();
        let whole = log.size;
        log.append(vec![topic("b", 2)]).unwrap();
        let path = Path::new("/data").join(FILE);
        let content = disk::read_file(&memory, &path).unwrap();
        for length in whole as usize..content.len() {
            let (memory, disk) = self::disk();
            disk::replace_file(&memory, &path, &content[..length]).unwrap();
            let mut log = MetadataLog::open(Arc::clone(&disk), Path::new("/data")).unwrap();
            assert_eq!(log.metadata().topics.len(), 1);
            log.append(vec![topic("c", 3)]).unwrap();
            let log = MetadataLog::open(disk, Path::new("/data")).unwrap();
            assert_eq!(log.metadata().topics.keys().collect::<Vec<_>>(), ["a", "c"]);
        }
    }

    #[test]
    fn a_change_of_a_newer_version_is_told_and_not_cut_off() {
        let (memory, disk) = disk();
        let mut log = MetadataLog::open(Arc::clone(&disk), Path::new("/data")).unwrap();
        log.append(vec![topic("a", 1)]).unwrap();
        let path = Path::new("/data").join(FILE);
        let mut content = disk::read_file(&memory, &path).unwrap();
        let json = br#"{"change":"from_the_future"}"#;
        content.put_u32(json.len() as u32);
        content.put_u32(crc32c::crc32c(json));
        content.extend_from_slice(json);
        disk::replace_file(&memory, &path, &content).unwrap();
        let error = MetadataLog::open(disk, Path::new("/data")).unwrap_err().to_string();
        assert!(
            error.contains("written by a newer one") && error.contains("from_the_future"),
            "{error}"
        );
        assert_eq!(disk::read_file(&memory, &path).unwrap(), content);
    }

    #[test]
    fn a_snapshot_leads_to_the_same() {
        let (_, disk) = disk();
        let mut log = MetadataLog::open(Arc::clone(&disk), Path::new("/data")).unwrap();
        log.append(vec![
            Change::Cluster { id: "c".to_owned() },
            topic("a", 1),
            group("readers", "50000"),
            group("others", "50000"),
            Change::ClientMetrics {
                name: "slow".to_owned(),
                configs: BTreeMap::from([("interval.ms".to_owned(), "1000".to_owned())]),
            },
            Change::Features {
                levels: BTreeMap::from([("group.version".to_owned(), 0)]),
                epoch: 1,
            },
            Change::LeaderEpoch { epoch: 4 },
        ])
        .unwrap();
        log.append(vec![Change::Partitions {
            name: "a".to_owned(),
            count: 9,
        }])
        .unwrap();
        log.append(vec![Change::GroupConfigs {
            group: "others".to_owned(),
            configs: BTreeMap::new(),
        }])
        .unwrap();
        let before = log.metadata().clone();
        assert_eq!(before.group_configs.keys().collect::<Vec<_>>(), ["readers"]);
        log.snapshot().unwrap();
        log.append(vec![topic("b", 1)]).unwrap();
        let log = MetadataLog::open(disk, Path::new("/data")).unwrap();
        let mut expected = before;
        expected.apply(topic("b", 1));
        assert_eq!(log.metadata(), &expected);
    }
}
