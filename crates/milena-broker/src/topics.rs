//! Topics by name and by id.

use std::{collections::BTreeMap, sync::Arc};

use bytestring::ByteString;
use milena_wire::{Uuid, errors::ErrorCode};

use crate::{config::TopicOverrides, node::Refusal, partition::Partition};

/// A topic. It is immutable and replaced as a whole, so a reader never sees half of a change.
#[derive(Debug, Clone)]
pub(crate) struct Topic {
    pub(crate) name: ByteString,
    pub(crate) id: Uuid,
    /// The replication factor as requested; there is always one replica.
    pub(crate) replication_factor: i16,
    pub(crate) overrides: TopicOverrides,
    pub(crate) partitions: Vec<Arc<Partition>>,
}

impl Topic {
    pub(crate) fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    /// Whether a topic is internal.
    pub(crate) fn is_internal(&self) -> bool {
        is_internal(&self.name)
    }
}

pub(crate) fn is_internal(name: &str) -> bool {
    matches!(
        name,
        "__consumer_offsets" | "__transaction_state" | "__share_group_state"
    )
}

#[derive(Debug, Default)]
pub(crate) struct Topics {
    by_name: BTreeMap<ByteString, Arc<Topic>>,
    by_id: BTreeMap<Uuid, Arc<Topic>>,
}

impl Topics {
    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    pub(crate) fn by_id(&self, id: Uuid) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// The topic that a request names by id or, if the id is zero, by name.
    pub(crate) fn called(&self, name: &str, id: Uuid) -> Option<&Arc<Topic>> {
        if id.is_zero() {
            self.by_name(name)
        } else {
            self.by_id(id)
        }
    }

    /// All topics, in the order of their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// The number of topics.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The number of partitions of all topics.
    pub(crate) fn partitions_len(&self) -> usize {
        self.by_name.values().map(|topic| topic.partitions.len()).sum()
    }

    /// Adds a topic, or replaces the one of the same name.
    pub(crate) fn insert(&mut self, topic: impl Into<Arc<Topic>>) -> Arc<Topic> {
        let topic = topic.into();
        if let Some(old) = self.by_name.insert(topic.name.clone(), Arc::clone(&topic)) {
            self.by_id.remove(&old.id);
        }
        self.by_id.insert(topic.id, Arc::clone(&topic));
        topic
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<Arc<Topic>> {
        let topic = self.by_name.remove(name)?;
        self.by_id.remove(&topic.id);
        Some(topic)
    }

    /// Refuses a name that is taken, or that collides in metric names, where `.` and `_` are the same.
    pub(crate) fn check_free(&self, name: &str) -> Result<(), Refusal> {
        if self.by_name.contains_key(name) {
            let reason = format!("topic {name} exists already");
            return Err(Refusal::new(ErrorCode::TopicAlreadyExists, reason));
        }
        // Only names with such a character can collide.
        if !name.contains(['.', '_']) {
            return Ok(());
        }
        match self.by_name.keys().find(|other| is_same_metric(name, other)) {
            None => Ok(()),
            Some(other) => {
                let reason = format!("topic {name} differs from {other} only by '.' and '_'");
                Err(Refusal::new(ErrorCode::InvalidTopicException, reason))
            }
        }
    }
}

fn is_same_metric(name: &str, other: &str) -> bool {
    let flat = |byte: u8| if byte == b'.' { b'_' } else { byte };
    name.len() == other.len() && name.bytes().map(flat).eq(other.bytes().map(flat))
}

/// The reason why a topic name is invalid; `None` if it is valid.
pub(crate) fn name_problem(name: &str) -> Option<&'static str> {
    const LENGTH_MAX: usize = 249;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name {
        "" => Some("the name is empty"),
        "." | ".." => Some("the name cannot be '.' or '..'"),
        _ if name.len() > LENGTH_MAX => Some("the name is longer than 249 characters"),
        _ if !name.chars().all(allowed) => {
            Some("the name has a character other than letters, digits, '.', '_' and '-'")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rules() {
        for good in ["a", "A-1_b.c", &"x".repeat(249)] {
            assert_eq!(name_problem(good), None, "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "é", &"x".repeat(250)] {
            assert!(name_problem(bad).is_some(), "{bad}");
        }
    }
}
