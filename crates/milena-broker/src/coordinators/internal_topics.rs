//! The topics that coordinators keep their records in.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    config::TopicOverrides,
    node::{NewTopic, Node, Refusal},
    topics::Topic,
};

pub(crate) const CONSUMER_OFFSETS: &str = "__consumer_offsets";
pub(crate) const TRANSACTION_STATE: &str = "__transaction_state";

/// The topic, created if it is not there yet.
pub(super) fn consumer_offsets(node: &Node) -> Result<Arc<Topic>, Refusal> {
    let config = node.config();
    ensure(
        node,
        CONSUMER_OFFSETS,
        config.get("offsets.topic.num.partitions")?,
        config.get("offsets.topic.replication.factor")?,
        config.get("offsets.topic.segment.bytes")?,
    )
}

/// The topic, created if it is not there yet.
pub(super) fn transaction_state(node: &Node) -> Result<Arc<Topic>, Refusal> {
    let config = node.config();
    ensure(
        node,
        TRANSACTION_STATE,
        config.get("transaction.state.log.num.partitions")?,
        config.get("transaction.state.log.replication.factor")?,
        config.get("transaction.state.log.segment.bytes")?,
    )
}

fn ensure(
    node: &Node,
    name: &'static str,
    partitions: i32,
    replicas: i16,
    segment_bytes: i32,
) -> Result<Arc<Topic>, Refusal> {
    let existing = || node.topics().by_name(name).cloned();
    if let Some(topic) = existing() {
        return Ok(topic);
    }
    let overrides = BTreeMap::from([
        ("cleanup.policy".to_owned(), "compact".to_owned()),
        ("compression.type".to_owned(), "producer".to_owned()),
        ("segment.bytes".to_owned(), segment_bytes.to_string()),
    ]);
    let new = NewTopic {
        name: name.into(),
        partitions,
        replication_factor: replicas,
        overrides: TopicOverrides(overrides),
    };
    match node.create_topics(&[new]).pop() {
        Some(Ok(topic)) => Ok(topic),
        // Perhaps somebody else was faster.
        Some(Err(refusal)) => existing().ok_or(refusal),
        None => existing().ok_or_else(|| Refusal::no_topic(name)),
    }
}

/// Which of `count` partitions looks after a group or a transactional id: Java's hash of the text, as in Kafka.
pub(crate) fn partition_of(id: &str, count: usize) -> usize {
    let hash = id
        .encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    // The absolute value of the smallest number counts as 0.
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
