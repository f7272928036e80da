//! The topics of a producer, with their partitions.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicI64, Ordering::Relaxed},
    },
};

use bytestring::ByteString;

use super::{
    buffer::Partition,
    partition::{Sticky, TopicKeys},
};

/// A snapshot of a topic. It is replaced when its partitions or leaders change.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) partitions: Vec<Arc<Partition>>,
    /// The partitions with a leader.
    pub(super) available: Vec<i32>,
    /// The leader of each partition; -1 without one.
    pub(super) leaders: Vec<i32>,
    /// The sticky partition of records without a key.
    pub(super) sticky: Arc<Mutex<Sticky>>,
    /// Counts the keys, if the partitioner uses them.
    pub(super) keys: Option<Arc<TopicKeys>>,
    /// The time of the last record.
    pub(super) used_ms: Arc<AtomicI64>,
}

impl Topic {
    pub(super) fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).unwrap_or(i32::MAX)
    }

    pub(super) fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}

#[derive(Debug, Default)]
pub(super) struct Topics {
    /// A producer has few topics, so comparing names costs less than hashing.
    by_name: RwLock<BTreeMap<ByteString, Arc<Topic>>>,
}

impl Topics {
    /// All topics. Nothing may be awaited while the guard is held.
    #[inline]
    pub(super) fn read(&self) -> RwLockReadGuard<'_, BTreeMap<ByteString, Arc<Topic>>> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, name: ByteString, topic: Arc<Topic>) {
        let mut topics = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        topics.insert(name, topic);
    }

    pub(super) fn remove(&self, name: &str) {
        let mut topics = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        topics.remove(name);
    }

    /// The topics without a record since then.
    pub(super) fn idle_since(&self, ms: i64) -> Vec<ByteString> {
        let topics = self.read();
        let idle = topics.iter().filter(|(_, topic)| {
            let is_empty = |partition: &Arc<Partition>| partition.buffer().is_empty();
            topic.used_ms.load(Relaxed) < ms && topic.partitions.iter().all(is_empty)
        });
        idle.map(|(name, _)| name.clone()).collect()
    }
}
