//! Encoding of subscriptions and assignments, which members and their leader exchange through the coordinator.
//!
//! They are encoded and decoded like in Kafka's own consumer: a newer version is read as our newest, and bytes after
//! the last field are ignored.

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    decode::DecodeError,
    encode::EncodeError,
    message::Message,
    messages::{consumer_protocol_assignment, consumer_protocol_subscription},
    prefixed,
};

use super::{MemberAssignment, MemberSubscription};
use crate::TopicPartition;

type AssignmentMessage = consumer_protocol_assignment::ConsumerProtocolAssignment;
type SubscriptionMessage = consumer_protocol_subscription::ConsumerProtocolSubscription;

/// The metadata of a JoinGroup request. The ids of the member are not part of it: the coordinator adds them.
///
/// Topics and partitions are sorted, so that the same subscription has the same bytes: a static member that rejoins
/// with other bytes causes a rebalance.
pub fn encode_subscription(subscription: &MemberSubscription) -> Result<Bytes, EncodeError> {
    let mut topics = subscription.topics.clone();
    topics.sort_unstable();
    let owned = by_topic(&subscription.owned);
    let message = SubscriptionMessage {
        topics,
        user_data: subscription.user_data.clone(),
        owned_partitions: owned
            .into_iter()
            .map(|(topic, partitions)| consumer_protocol_subscription::TopicPartition { topic, partitions })
            .collect(),
        generation_id: subscription.generation.max(-1),
        rack_id: subscription.rack.clone(),
    };
    prefixed::encode_versioned(&message, SubscriptionMessage::VERSIONS.max)
}

/// Decodes the subscription of a member; the coordinator has named its `member_id` and `instance_id`.
///
/// Topics and user data are slices of `bytes`, and keep its buffer in memory.
pub fn decode_subscription(
    member_id: ByteString,
    instance_id: Option<ByteString>,
    bytes: &Bytes,
) -> Result<MemberSubscription, DecodeError> {
    let message: SubscriptionMessage = prefixed::decode_newest(bytes)?;
    let owned = message
        .owned_partitions
        .into_iter()
        .map(|topic| (topic.topic, topic.partitions));
    Ok(MemberSubscription {
        member_id,
        instance_id,
        topics: message.topics,
        owned: flat(owned),
        generation: message.generation_id.max(-1),
        rack: message.rack_id.filter(|rack| !rack.is_empty()),
        user_data: message.user_data,
    })
}

/// The assignment of one member, for a SyncGroup request.
pub fn encode_assignment(assignment: &MemberAssignment) -> Result<Bytes, EncodeError> {
    let message = AssignmentMessage {
        assigned_partitions: by_topic(&assignment.partitions)
            .into_iter()
            .map(|(topic, partitions)| consumer_protocol_assignment::TopicPartition { topic, partitions })
            .collect(),
        user_data: assignment.user_data.clone(),
    };
    prefixed::encode_versioned(&message, AssignmentMessage::VERSIONS.max)
}

/// Decodes the assignment of a member. The partitions are sorted; their names are copies, because a member keeps them
/// for long.
pub fn decode_assignment(bytes: &Bytes) -> Result<MemberAssignment, DecodeError> {
    let message: AssignmentMessage = prefixed::decode_newest(bytes)?;
    let topics = message.assigned_partitions.into_iter();
    let mut partitions = flat(topics.map(|topic| (ByteString::from(&*topic.topic), topic.partitions)));
    partitions.sort_unstable();
    partitions.dedup();
    Ok(MemberAssignment {
        partitions,
        user_data: message.user_data,
    })
}

/// Partitions in the form of the wire: each topic once, all sorted.
pub(super) fn by_topic(partitions: &[TopicPartition]) -> Vec<(ByteString, Vec<i32>)> {
    let mut sorted: Vec<&TopicPartition> = partitions.iter().collect();
    sorted.sort_unstable();
    let mut topics: Vec<(ByteString, Vec<i32>)> = vec![];
    for partition in sorted {
        match topics.last_mut() {
            Some((topic, numbers)) if *topic == partition.topic => numbers.push(partition.partition),
            _ => topics.push((partition.topic.clone(), vec![partition.partition])),
        }
    }
    topics
}

/// The inverse of [`by_topic`].
pub(super) fn flat(topics: impl Iterator<Item = (ByteString, Vec<i32>)>) -> Vec<TopicPartition> {
    topics
        .flat_map(|(topic, numbers)| {
            numbers
                .into_iter()
                .map(move |number| TopicPartition::new(topic.clone(), number))
        })
        .collect()
}
