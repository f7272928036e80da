//! Partitions: opening those of a topic, adding to them.

use std::{
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytestring::ByteString;
use milena_log::{
    Durability, Log, LogConfig, Opening, StorageError,
    checkpoint::{self, TOPIC_ID},
    disk::{self, Disk},
};
use milena_wire::{Uuid, errors::ErrorCode};

use super::{Node, Refusal, log_config, random_uuid};
use crate::{config::TopicConfig, metadata_log::Change, partition::Partition, topics::Topic};

/// How many partitions one request may add to a topic, as in Kafka: each costs memory, and a number costs nothing.
const ADDED_AT_ONCE_MAX: i32 = 10_000;

/// Whether a partition was there before.
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
            let reason = format!("{name} cannot grow: where a group is kept follows from the number of partitions");
            return Err(Refusal::new(ErrorCode::InvalidTopicException, reason));
        }
        let present = topic.partitions.len() as i32;
        if count <= present {
            let reason = format!("topic {name} has {present} partitions already; {count} would not be more");
            return Err(Refusal::new(ErrorCode::InvalidPartitions, reason));
        }
        check_added(count - present)?;
        Ok(topic)
    }

    /// Adds partitions to a topic until it has `count`; when this returns they survive a power cut.
    pub(crate) fn create_partitions(&self, name: &str, count: i32) -> Result<(), Refusal> {
        let mut metadata = self.metadata();
        let topic = self.check_growth(name, count)?;
        let config = TopicConfig::resolve(&topic.overrides, &self.config())?;
        let present = topic.partitions.len() as i32;
        let new = self.open_partitions((&topic.name, topic.id), present..count, &log_config(&config), Age::New)?;
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
            let on_disk = config.durability != Durability::Memory;
            let is_own = age == Age::Old && (!on_disk || is_of_topic(&*disk, &dir, id)?);
            if !is_own {
                set_aside(&*disk, &dir)?;
            }
            let opening = match is_own && on_disk {
                true => self.data_dir.opening_of(topic, index),
                false => EMPTY,
            };
            let mut log = Log::open(disk, &dir, config.clone(), opening)?;
            if on_disk {
                log = log.of_topic(id);
            }
            if log.is_dirty() {
                // What a crash has left is there, but only synced records may be seen where that is the promise.
                log.sync()?;
            }
            if let (true, Some(offset)) = (is_own, self.data_dir.first_dirty_of(topic, index)) {
                log.set_first_dirty_offset(offset);
            }
            Ok(Arc::new(Partition::new(topic.clone(), index, log)))
        };
        indexes.map(open).collect()
    }

    pub(super) fn place_of(&self, topic: &str, index: i32, durability: Durability) -> (Arc<dyn Disk>, PathBuf) {
        let dir = format!("{topic}-{index}");
        match durability {
            Durability::Memory => (Arc::clone(&self.memory), Path::new("/memory").join(dir)),
            Durability::Os | Durability::Fsync => (self.data_dir.disk(), self.data_dir.path().join(dir)),
        }
    }
}

/// A log that nobody has written to.
const EMPTY: Opening = Opening {
    clean: true,
    recovery_point: 0,
    log_start_offset: 0,
};

/// Whether a folder is that of a topic, or there is none. A folder that does not say whose it is, because of a power cut,
/// is made to: then it has the name that only this topic can have given it.
fn is_of_topic(disk: &dyn Disk, dir: &Path, id: Uuid) -> Result<bool, Refusal> {
    let path = dir.join(TOPIC_ID);
    match checkpoint::read_topic_id(disk, &path) {
        Ok(Some(found)) => Ok(found == id),
        Ok(None) if !disk.exists(dir).unwrap_or(true) => Ok(true),
        Ok(None) | Err(StorageError::Damaged { .. }) => {
            checkpoint::write_topic_id(disk, &path, id)?;
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

pub(super) fn check_added(count: i32) -> Result<(), Refusal> {
    if count > ADDED_AT_ONCE_MAX {
        let reason = format!("{count} partitions are more than the {ADDED_AT_ONCE_MAX} that one request may create");
        return Err(Refusal::new(ErrorCode::PolicyViolation, reason));
    }
    Ok(())
}

/// Renames the folder that a deleted topic of the same name has left, which happens when removing it failed, a crash came
/// in between, or the topic was kept in memory when it was deleted. Its records are not those of the new topic, but they
/// may be dear to somebody.
fn set_aside(disk: &dyn Disk, dir: &Path) -> Result<(), Refusal> {
    let failed = |error| {
        let reason = format!("cannot move {} out of the way: {error}", dir.display());
        Refusal::new(ErrorCode::KafkaStorageError, reason)
    };
    if !disk.exists(dir).map_err(failed)? {
        return Ok(());
    }
    let aside = disk::with_suffix(dir, &format!(".{}-stray", random_uuid()));
    tracing::warn!(dir = %dir.display(), aside = %aside.display(), "files of a deleted topic were in the way");
    disk.rename(dir, &aside).map_err(failed)
}
