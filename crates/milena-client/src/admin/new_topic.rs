//! Specifications of new topics and partitions, and the created topic.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::Uuid;

use super::ConfigEntry;

/// The specification of a new topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a topic is created by Admin::create_topics"]
pub struct NewTopic {
    pub(super) name: ByteString,
    pub(super) partitions: Option<i32>,
    pub(super) replication_factor: Option<i16>,
    pub(super) assignment: Vec<Vec<i32>>,
    pub(super) configs: BTreeMap<ByteString, ByteString>,
}

impl NewTopic {
    /// A topic with the broker's default number of partitions and replicas.
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

    /// The brokers of each partition, the preferred leader first. It defines the number of partitions and replicas, which
    /// must not be set too.
    pub fn assignment(mut self, brokers: impl IntoIterator<Item = Vec<i32>>) -> Self {
        self.assignment = brokers.into_iter().collect();
        self
    }

    /// Sets a config of the topic, such as `retention.ms`.
    pub fn config(mut self, name: impl Into<ByteString>, value: impl Into<ByteString>) -> Self {
        self.configs.insert(name.into(), value.into());
        self
    }
}

/// A topic that was created, or validated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// `None` if the broker is too old to report it, or if the topic was only validated.
    pub id: Option<Uuid>,
    /// `None` if the broker is too old to report it, or without the permission to describe configs.
    pub partitions: Option<i32>,
    /// As `partitions`.
    pub replication_factor: Option<i16>,
    /// Its configs; empty if the broker is too old to report them, or without the permission.
    pub configs: Vec<ConfigEntry>,
}

/// The new number of partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "partitions are added by Admin::create_partitions"]
pub struct NewPartitions {
    pub(super) total: i32,
    pub(super) assignment: Option<Vec<Vec<i32>>>,
}

impl NewPartitions {
    /// The total number, including the existing partitions.
    pub fn increase_to(total: i32) -> Self {
        Self {
            total,
            assignment: None,
        }
    }

    /// The total number of partitions.
    pub fn total(&self) -> i32 {
        self.total
    }

    /// The brokers of each new partition, the preferred leader first.
    pub fn assignment(mut self, brokers: impl IntoIterator<Item = Vec<i32>>) -> Self {
        self.assignment = Some(brokers.into_iter().collect());
        self
    }
}
