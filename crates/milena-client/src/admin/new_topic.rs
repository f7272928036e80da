//! What a topic is made from, and what became of it.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::Uuid;

use super::ConfigEntry;

/// A topic to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a topic is made by Admin::create_topics"]
pub struct NewTopic {
    pub(super) name: ByteString,
    pub(super) partitions: Option<i32>,
    pub(super) replication_factor: Option<i16>,
    pub(super) assignment: Vec<Vec<i32>>,
    pub(super) configs: BTreeMap<ByteString, ByteString>,
}

impl NewTopic {
    /// A topic with as many partitions and replicas as the broker's defaults say.
    pub fn new(name: impl Into<ByteString>) -> Self {
        Self {
            name: name.into(),
            partitions: None,
            replication_factor: None,
            assignment: vec![],
            configs: BTreeMap::new(),
        }
    }

    pub fn partitions(mut self, count: i32) -> Self {
        self.partitions = Some(count);
        self
    }

    pub fn replication_factor(mut self, replicas: i16) -> Self {
        self.replication_factor = Some(replicas);
        self
    }

    /// Which brokers have each partition, the preferred leader first. It says how many partitions and replicas there are,
    /// so do not say that otherwise.
    pub fn assignment(mut self, brokers: impl IntoIterator<Item = Vec<i32>>) -> Self {
        self.assignment = brokers.into_iter().collect();
        self
    }

    /// A setting of the topic, such as `retention.ms`.
    pub fn config(mut self, name: impl Into<ByteString>, value: impl Into<ByteString>) -> Self {
        self.configs.insert(name.into(), value.into());
        self
    }
}

/// A topic that was made, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// `None` if the broker is too old to say, or if it was only asked whether it would.
    pub id: Option<Uuid>,
    /// `None` if the broker is too old to say, or we may not know.
    pub partitions: Option<i32>,
    /// As for the partitions.
    pub replication_factor: Option<i16>,
    /// Its settings; none if the broker is too old to say, or we may not know.
    pub configs: Vec<ConfigEntry>,
}

/// How many partitions a topic is to have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "partitions are added by Admin::create_partitions"]
pub struct NewPartitions {
    pub(super) total: i32,
    pub(super) assignment: Option<Vec<Vec<i32>>>,
}

impl NewPartitions {
    /// So many in all, with those that there are.
    pub fn increase_to(total: i32) -> Self {
        Self {
            total,
            assignment: None,
        }
    }

    /// How many there are to be in all.
    pub fn total(&self) -> i32 {
        self.total
    }

    /// Which brokers have each of the new partitions, the preferred leader first.
    pub fn assignment(mut self, brokers: impl IntoIterator<Item = Vec<i32>>) -> Self {
        self.assignment = Some(brokers.into_iter().collect());
        self
    }
}
