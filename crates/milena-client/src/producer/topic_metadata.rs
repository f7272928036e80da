//! Topics, updated from the metadata.

use std::{
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, atomic::AtomicI64},
};

use bytestring::ByteString;
use milena_machines::TopicPartition;

use super::{
    buffer::Partition,
    partition::{Sticky, TopicKeys},
    shared::{ProducerCore, ProducerShared},
    topics::Topic,
};
use crate::metadata::TopicSelection;

/// The leader of a partition without one.
const NO_LEADER: i32 = -1;

impl ProducerShared {
    /// Applies the metadata of a topic: its partitions and their leaders.
    pub(super) fn update_topic(&self, core: &mut ProducerCore, now_ms: i64, name: &ByteString) {
        let cluster = self.metadata.cache();
        let old = self.topics.read().get(name).cloned();
        let Some(known) = cluster.topic(name) else {
            // Its batches keep waiting. The next record requests the metadata again.
            if let Some(old) = old {
                for partition in &old.partitions {
                    core.sender.handle_leader(now_ms, partition.slot, None);
                }
                self.topics.remove(name);
            }
            return;
        };
        let count = i32::try_from(known.partitions.len()).unwrap_or(i32::MAX);
        let leaders: Vec<i32> = (0..count)
            .map(|index| cluster.leader(name, index).map_or(NO_LEADER, |leader| leader.broker.id))
            .collect();
        if old.as_ref().is_some_and(|old| old.leaders == leaders) {
            return;
        }
        let mut partitions = Vec::with_capacity(leaders.len());
        for (index, leader) in (0..).zip(&leaders) {
            let partition = self.partition(core, name, index);
            let leader = Some(*leader).filter(|leader| *leader != NO_LEADER);
            core.sender.handle_leader(now_ms, partition.slot, leader);
            partitions.push(partition);
        }
        let available = (0..).zip(&leaders).filter(|(_, leader)| **leader != NO_LEADER);
        let topic = Topic {
            partitions,
            available: available.map(|(index, _)| index).collect(),
            leaders,
            sticky: old.as_ref().map_or_else(
                || {
                    let seed = RandomState::new().hash_one(name);
                    Arc::new(Mutex::new(Sticky::new(seed)))
                },
                |old| Arc::clone(&old.sticky),
            ),
            keys: self.keys_to_watch(old.as_deref(), known.partitions.len()),
            used_ms: old.map_or_else(|| Arc::new(AtomicI64::new(now_ms)), |old| Arc::clone(&old.used_ms)),
        };
        self.topics.insert(name.clone(), Arc::new(topic));
    }

    fn keys_to_watch(&self, old: Option<&Topic>, partitions: usize) -> Option<Arc<TopicKeys>> {
        if !self.partitioner.goes_by_key() {
            return None;
        }
        let same = old.filter(|old| old.partitions.len() == partitions);
        same.and_then(|old| old.keys.clone())
            .or_else(|| Some(Arc::new(TopicKeys::new(partitions))))
    }

    /// Returns the partition, which is created once and kept, also while its topic is missing.
    fn partition(&self, core: &mut ProducerCore, topic: &ByteString, partition: i32) -> Arc<Partition> {
        let slot = core.sender.slot(&TopicPartition::new(topic.clone(), partition));
        if let Some(known) = core.partitions.get(slot.index()) {
            return Arc::clone(known);
        }
        let topic_partition = TopicPartition::new(topic.clone(), partition);
        let new = Arc::new(Partition::new(Arc::new(topic_partition), slot));
        core.partitions.push(Arc::clone(&new));
        core.under_way.push(0);
        new
    }

    /// Deselects the metadata of topics without recent records.
    pub(super) fn forget_idle_topics(&self, core: &mut ProducerCore, now_ms: i64) {
        let idle = self
            .topics
            .idle_since(now_ms.saturating_sub(self.config.metadata_max_idle_ms));
        if idle.is_empty() {
            return;
        }
        for name in idle {
            self.topics.remove(&name);
            core.topics_in_use.remove(&name);
        }
        self.metadata.select(TopicSelection::Topics(core.topics_in_use.clone()));
    }

    /// Selects the metadata of a topic.
    pub(super) fn use_topic(&self, name: &str) {
        let mut core = self.core();
        if core.topics_in_use.insert(ByteString::from(name)) {
            self.metadata.select(TopicSelection::Topics(core.topics_in_use.clone()));
        }
    }
}
