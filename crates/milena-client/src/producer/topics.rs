//! The topics that were sent to, with the partitions of each.

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

/// A topic as it is now: when its partitions or leaders change, another takes its place.
#[derive(Debug)]
pub(super) struct Topic {
    pub(super) partitions: Vec<Arc<Partition>>,
    /// The numbers of those that have a leader.
    pub(super) available: Vec<i32>,
    /// The nodes that lead the partitions; -1 if nobody does.
    pub(super) leaders: Vec<i32>,
    /// Where records without a key go at the moment.
    pub(super) sticky: Arc<Mutex<Sticky>>,
    /// Watches the keys, if the partitioner goes by them.
    pub(super) keys: Option<Arc<TopicKeys>>,
    /// When something was last sent to it.
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
    /// Few have more than a handful: to compare names costs less than to hash one.
    by_name: RwLock<BTreeMap<ByteString, Arc<Topic>>>,
}

impl Topics {
    /// All of them, as they are now. Nobody may wait for anything while holding this.
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

    /// Those that nothing was sent to since then.
    pub(super) fn idle_since(&self, ms: i64) -> Vec<ByteString> {
        let topics = self.read();
        let idle = topics.iter().filter(|(_, topic)| {
            let is_empty = |partition: &Arc<Partition>| partition.buffer().is_empty();
            topic.used_ms.load(Relaxed) < ms && topic.partitions.iter().all(is_empty)
        });
        idle.map(|(name, _)| name.clone()).collect()
    }
}
