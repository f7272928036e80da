//! The topics of the cluster, as the coordinators see them.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::Uuid;

/// A snapshot of all topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicsImage {
    by_name: BTreeMap<ByteString, TopicImage>,
    names: BTreeMap<Uuid, ByteString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicImage {
    pub id: Uuid,
    pub partitions: i32,
}

impl TopicsImage {
    /// Adds a topic, or replaces the one of the same name.
    pub fn insert(&mut self, name: ByteString, topic: TopicImage) {
        if let Some(old) = self.by_name.insert(name.clone(), topic) {
            self.names.remove(&old.id);
        }
        self.names.insert(topic.id, name);
    }

    pub fn remove(&mut self, name: &str) {
        if let Some(old) = self.by_name.remove(name) {
            self.names.remove(&old.id);
        }
    }

    pub fn by_name(&self, name: &str) -> Option<TopicImage> {
        self.by_name.get(name).copied()
    }

    pub fn by_id(&self, id: Uuid) -> Option<(&ByteString, TopicImage)> {
        let name = self.names.get(&id)?;
        Some((name, self.by_name(name)?))
    }

    /// All topics, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&ByteString, TopicImage)> {
        self.by_name.iter().map(|(name, topic)| (name, *topic))
    }
}
