//! The internal topics of the coordinators.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    config::TopicOverrides,
    node::{NewTopic, Node, Refusal},
    quotas::MutationPermits,
    topics::Topic,
};

pub(crate) const CONSUMER_OFFSETS: &str = "__consumer_offsets";

pub(super) const GROUPS: InternalTopic = InternalTopic {
    name: CONSUMER_OFFSETS,
    partitions: "offsets.topic.num.partitions",
    replicas: "offsets.topic.replication.factor",
    segment_bytes: "offsets.topic.segment.bytes",
};

pub(super) const TRANSACTIONS: InternalTopic = InternalTopic {
    name: "__transaction_state",
    partitions: "transaction.state.log.num.partitions",
    replicas: "transaction.state.log.replication.factor",
    segment_bytes: "transaction.state.log.segment.bytes",
};

/// An internal topic, and the settings of the broker that decide about its partitions and segments.
#[derive(Debug)]
pub(super) struct InternalTopic {
    pub(super) name: &'static str,
    partitions: &'static str,
    replicas: &'static str,
    segment_bytes: &'static str,
}

impl InternalTopic {
    /// Returns the topic, and creates it if it does not exist.
    pub(super) fn ensure(&self, node: &Node) -> Result<Arc<Topic>, Refusal> {
        let existing = || node.topics().by_name(self.name).cloned();
        if let Some(topic) = existing() {
            return Ok(topic);
        }
        let config = node.config();
        let segment_bytes: i32 = config.get(self.segment_bytes)?;
        let overrides = BTreeMap::from([
            ("cleanup.policy".to_owned(), "compact".to_owned()),
            ("compression.type".to_owned(), "producer".to_owned()),
            ("segment.bytes".to_owned(), segment_bytes.to_string()),
        ]);
        let new = NewTopic {
            name: self.name.into(),
            partitions: config.get(self.partitions)?,
            replication_factor: config.get(self.replicas)?,
            overrides: TopicOverrides(overrides),
        };
        match node.create_topics(&[new], &mut MutationPermits::new(None, false)).pop() {
            Some(Ok(topic)) => Ok(topic),
            // Another request may have created it meanwhile.
            Some(Err(refusal)) => existing().ok_or(refusal),
            None => existing().ok_or_else(|| Refusal::no_topic(self.name)),
        }
    }
}

/// The partition, of `count`, of a group or a transactional id: by Java's hash of the text, as in Kafka.
pub(crate) fn partition_of(id: &str, count: usize) -> usize {
    let hash = id
        .encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    // Kafka takes 0 for the absolute value of the smallest number.
    let positive = usize::try_from(hash.checked_abs().unwrap_or(0)).unwrap_or(0);
    positive.checked_rem(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hashed_as_java_does() {
        // "Aa".hashCode() == "BB".hashCode() == 2112; "polygenelubricants".hashCode() == Integer.MIN_VALUE.
        assert_eq!(partition_of("Aa", 50), 12);
        assert_eq!(partition_of("BB", 50), 12);
        assert_eq!(partition_of("polygenelubricants", 50), 0);
        assert_eq!(partition_of("", 50), 0);
        // "group".hashCode() == 98629247
        assert_eq!(partition_of("group", 50), 47);
        assert_eq!(partition_of("group", 0), 0);
    }
}
