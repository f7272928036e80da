//! Partitions of a topic: opening, adding.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytestring::ByteString;
use milena_log::{
    Durability, Ledger as _, Log, LogConfig, Opening, StorageError,
    checkpoint::{self, TOPIC_ID},
    disk::{self, Disk},
};
use milena_wire::{Uuid, errors::ErrorCode};

use super::{Node, Refusal, log_config, random_uuid};
use crate::{config::TopicConfig, log_ends::PartitionKey, metadata_log::Change, partition::Partition, topics::Topic};

/// Whether a partition existed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    New,
    Old,
}

impl Node {
    /// Checks that a topic can grow to `count` partitions.
    pub(crate) fn check_growth(&self, name: &str, count: i32) -> Result<Arc<Topic>, Refusal> {
        let topic = self.topics().by_name(name).cloned();
        let topic = topic.ok_or_else(|| Refusal::no_topic(name))?;
        if topic.is_internal() {
            let reason =
                format!("{name} cannot grow: its number of partitions decides about the coordinator of each group");
            return Err(Refusal::new(ErrorCode::InvalidTopicException, reason));
        }
        let present = topic.partitions.len() as i32;
        if count <= present {
            let reason = format!("topic {name} has {present} partitions already; {count} is not more");
            return Err(Refusal::new(ErrorCode::InvalidPartitions, reason));
        }
        self.check_added(count - present)?;
        self.check_room_for_partitions(usize::try_from(count - present).unwrap_or(0), 0)?;
        Ok(topic)
    }

    /// Adds partitions to a topic until it has `count`, durably when this returns.
    pub(crate) fn create_partitions(&self, name: &str, count: i32) -> Result<(), Refusal> {
        let mut metadata = self.metadata();
        let topic = self.check_growth(name, count)?;
        let broker = self.config();
        let config = TopicConfig::resolve(&topic.overrides, &broker)?;
        let present = topic.partitions.len() as i32;
        let new = self.open_partitions(
            (&topic.name, topic.id),
            present..count,
            &log_config(&config, &broker),
            Age::New,
        )?;
        metadata.append(vec![Change::Partitions {
            name: name.to_owned(),
            count,
        }])?;
        let mut grown = Topic::clone(&topic);
        grown.partitions.extend(new);
        self.topics_mut().insert(grown);
        Ok(())
    }

    pub(super) fn open_partitions(
        &self,
        (topic, id): (&ByteString, Uuid),
        indexes: Range<i32>,
        config: &LogConfig,
        age: Age,
    ) -> Result<Vec<Arc<Partition>>, Refusal> {
        let open = |index| {
            let (disk, dir) = self.place_of(topic, index, config.durability);
            let key = (id, index);
            let on_disk = config.durability != Durability::Memory;
            let opened = match (on_disk, age) {
                (true, Age::Old) => self.open_old(topic, key, disk, &dir, config),
                (true, Age::New) => {
                    self.make_way(&*disk, &dir)?;
                    Log::open(disk, &dir, config.clone(), EMPTY)?
                }
                (false, _) => Log::open(disk, &dir, config.clone(), EMPTY)?,
            };
            let mut log = opened;
            if on_disk {
                log = log.of_topic(id);
            }
            if on_disk && log.offline_reason().is_none() {
                log.keep_ledger(self.data_dir.ends().ledger(key));
            }
            Ok(Arc::new(Partition::new(topic.clone(), index, log)))
        };
        indexes.map(open).collect()
    }

    /// Opens the log of a partition that existed before. If that fails, the partition is offline.
    fn open_old(&self, topic: &str, key: PartitionKey, disk: Arc<dyn Disk>, dir: &Path, config: &LogConfig) -> Log {
        let opened = self.owner_of(&*disk, dir, key.0).and_then(|is_own| {
            let opening = match is_own {
                true => self.data_dir.opening_of(topic, key),
                false => EMPTY,
            };
            let log = Log::open(Arc::clone(&disk), dir, config.clone(), opening)?;
            if log.is_dirty() {
                // Records that survived a crash must be synced before readers see them, where the topic promises that.
                log.sync()?;
            }
            if let (true, Some(offset)) = (is_own, self.data_dir.first_dirty_of(topic, key.1)) {
                log.set_first_dirty_offset(offset);
            }
            Ok(log)
        });
        match opened {
            Ok(log) => {
                tell_damage(topic, key.1, &log);
                log
            }
            Err(error) => {
                tracing::error!(
                    event = "partition_offline",
                    topic,
                    partition = key.1,
                    %error,
                    "partition {topic}-{} is offline; the others are served",
                    key.1
                );
                if let Some(mark) = self.data_dir.mark_of(key) {
                    // The next start must find it in the log ends too.
                    self.data_dir.ends().ledger(key).note(&mark);
                }
                Log::offline(disk, dir, config.clone(), &error)
            }
        }
    }

    /// Checks that a folder is that of the topic, or that there is none. A folder of a deleted topic is moved out of the way. A
    /// folder whose topic id is missing or damaged gets the id of the topic that its name has.
    fn owner_of(&self, disk: &dyn Disk, dir: &Path, id: Uuid) -> Result<bool, StorageError> {
        let path = dir.join(TOPIC_ID);
        let found = match checkpoint::read_topic_id(disk, &path) {
            Ok(Some(found)) if found == id => return Ok(true),
            Ok(found) => found,
            Err(StorageError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        let io = |source| StorageError::Io {
            action: "look for",
            path: dir.to_owned(),
            source,
        };
        if !disk.exists(dir).map_err(io)? {
            return Ok(true);
        }
        let ids = self.topic_ids();
        match found {
            Some(found) if ids.deleted.contains(&found) => {
                set_aside(disk, dir)?;
                return Ok(false);
            }
            Some(found) if ids.live.contains(&found) => {
                let reason = format!(
                    "it names the id {found} of another topic; were folders exchanged? Put them back, or, if only this file is \
                     wrong, remove it"
                );
                return Err(StorageError::Damaged { path, reason });
            }
            _ => {}
        }
        tracing::warn!(
            event = "partition_metadata_rewritten",
            file = %path.display(),
            "the topic id of a folder was missing or damaged and is written anew"
        );
        checkpoint::write_topic_id(disk, &path, id)?;
        Ok(true)
    }

    /// Moves the folder of a deleted topic out of the way of a new one. A folder of records that were not deleted stays, and
    /// the topic cannot be created.
    fn make_way(&self, disk: &dyn Disk, dir: &Path) -> Result<(), Refusal> {
        let failed = |error: std::io::Error| Refusal::new(ErrorCode::KafkaStorageError, error.to_string());
        if !disk.exists(dir).map_err(failed)? {
            return Ok(());
        }
        let found = checkpoint::read_topic_id(disk, &dir.join(TOPIC_ID)).ok().flatten();
        let is_deleted = found.is_some_and(|found| self.topic_ids().deleted.contains(&found));
        let entries = disk.list(dir).map_err(failed)?;
        let has_records = entries
            .iter()
            .any(|entry| entry.name.ends_with(".log") && entry.len > 0);
        if !is_deleted && has_records {
            let reason = format!(
                "{} holds records that were not deleted, and no topic that the broker knows; move the folder away, or \
                 restore metadata.log from a copy",
                dir.display()
            );
            return Err(Refusal::new(ErrorCode::KafkaStorageError, reason));
        }
        Ok(set_aside(disk, dir)?)
    }

    pub(super) fn place_of(&self, topic: &str, index: i32, durability: Durability) -> (Arc<dyn Disk>, PathBuf) {
        let dir = format!("{topic}-{index}");
        match durability {
            Durability::Memory => (Arc::clone(&self.memory), Path::new("/memory").join(dir)),
            Durability::Os | Durability::Fsync => (self.data_dir.disk(), self.data_dir.path().join(dir)),
        }
    }
}

/// Opens a log that was never written to.
const EMPTY: Opening = Opening {
    clean: true,
    recovery_point: 0,
    log_start_offset: 0,
    known: None,
    accept_loss: false,
};

/// Logs the damage that opening a log found.
fn tell_damage(topic: &str, partition: i32, log: &Log) {
    for damage in &log.recovery().damage {
        let (from, to) = (damage.from_offset, damage.to_offset);
        let kept: Vec<String> = damage.kept.iter().map(|path| path.display().to_string()).collect();
        tracing::warn!(
            event = "log_damage",
            topic,
            partition,
            from_offset = from,
            to_offset = to,
            bytes = damage.bytes,
            whole_records = damage.records,
            kept = kept.join(", "),
            "partition {topic}-{partition}: {damage}"
        );
    }
}

/// Renames the folder that a deleted topic of the same name has left. That happens if its removal failed or was cut off by
/// a crash, or if the topic was in memory when it was deleted. The records are not those of the new topic, but they may
/// still be needed.
fn set_aside(disk: &dyn Disk, dir: &Path) -> Result<(), StorageError> {
    let aside = disk::with_suffix(dir, &format!(".{}-stray", random_uuid()));
    tracing::warn!(
        event = "stray_folder",
        dir = %dir.display(),
        aside = %aside.display(),
        "files of a deleted topic were in the way of a new one and were renamed"
    );
    disk.rename(dir, &aside).map_err(|source| StorageError::Io {
        action: "move out of the way",
        path: dir.to_owned(),
        source,
    })
}
