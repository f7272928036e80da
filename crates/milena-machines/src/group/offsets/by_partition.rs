//! A map by group, topic and partition.

use std::collections::BTreeMap;

use bytestring::ByteString;

use crate::group::OffsetKey;

/// A group is in the map as long as it has an entry.
#[derive(Debug, Clone)]
pub(super) struct ByPartition<T> {
    groups: BTreeMap<ByteString, Topics<T>>,
}

pub(super) type Topics<T> = BTreeMap<ByteString, BTreeMap<i32, T>>;

impl<T> Default for ByPartition<T> {
    fn default() -> Self {
        Self {
            groups: BTreeMap::new(),
        }
    }
}

impl<T> ByPartition<T> {
    pub(super) fn has_group(&self, group_id: &str) -> bool {
        self.groups.contains_key(group_id)
    }

    pub(super) fn groups_len(&self) -> usize {
        self.groups.len()
    }

    pub(super) fn group_ids(&self) -> impl Iterator<Item = &ByteString> {
        self.groups.keys()
    }

    pub(super) fn group(&self, group_id: &str) -> Option<&Topics<T>> {
        self.groups.get(group_id)
    }

    pub(super) fn get(&self, key: &OffsetKey) -> Option<&T> {
        self.find(&key.group_id, &key.topic, key.partition)
    }

    pub(super) fn find(&self, group_id: &str, topic: &str, partition: i32) -> Option<&T> {
        self.groups.get(group_id)?.get(topic)?.get(&partition)
    }

    pub(super) fn get_mut(&mut self, key: &OffsetKey) -> Option<&mut T> {
        let topics = self.groups.get_mut(&key.group_id)?;
        topics.get_mut(&key.topic)?.get_mut(&key.partition)
    }

    pub(super) fn insert(&mut self, key: OffsetKey, value: T) {
        let topics = self.groups.entry(key.group_id).or_default();
        topics.entry(key.topic).or_default().insert(key.partition, value);
    }

    pub(super) fn remove(&mut self, key: &OffsetKey) -> Option<T> {
        let topics = self.groups.get_mut(&key.group_id)?;
        let partitions = topics.get_mut(&key.topic)?;
        let removed = partitions.remove(&key.partition);
        if partitions.is_empty() {
            topics.remove(&key.topic);
        }
        if topics.is_empty() {
            self.groups.remove(&key.group_id);
        }
        removed
    }

    /// All entries with their keys.
    pub(super) fn entries(&self) -> impl Iterator<Item = (OffsetKey, &T)> {
        self.groups.keys().flat_map(|group_id| self.entries_of(group_id))
    }

    pub(super) fn entries_of(&self, group_id: &ByteString) -> impl Iterator<Item = (OffsetKey, &T)> {
        let topics = self.groups.get(group_id).into_iter().flatten();
        topics.flat_map(move |(topic, partitions)| {
            partitions.iter().map(move |(partition, value)| {
                let key = OffsetKey {
                    group_id: group_id.clone(),
                    topic: topic.clone(),
                    partition: *partition,
                };
                (key, value)
            })
        })
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = (OffsetKey, T)> {
        self.groups.into_iter().flat_map(|(group_id, topics)| {
            topics.into_iter().flat_map(move |(topic, partitions)| {
                let group_id = group_id.clone();
                partitions.into_iter().map(move |(partition, value)| {
                    let key = OffsetKey {
                        group_id: group_id.clone(),
                        topic: topic.clone(),
                        partition,
                    };
                    (key, value)
                })
            })
        })
    }
}

impl<T: Default> ByPartition<T> {
    pub(super) fn entry(&mut self, key: OffsetKey) -> &mut T {
        let topics = self.groups.entry(key.group_id).or_default();
        topics.entry(key.topic).or_default().entry(key.partition).or_default()
    }
}
