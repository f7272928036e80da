//! DescribeTopicPartitions 0: topics in the order of their names, up to the limit of partitions.

use bytestring::ByteString;
use milena_machines::authorizer::{Operation, ResourceType};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
        describe_topic_partitions_response::{
            Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
        },
    },
};

use super::common::{NOT_REQUESTED, Outcome, RequestContext};
use crate::{node::Node, topics::Topic};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: DescribeTopicPartitionsRequest,
) -> Outcome<DescribeTopicPartitionsResponse> {
    let node = cx.node;
    let mut names: Vec<ByteString> = request.topics.into_iter().map(|topic| topic.name).collect();
    let is_list = names.is_empty();
    if is_list {
        names = node.topics().iter().map(|topic| topic.name.clone()).collect();
    }
    names.sort();
    names.dedup();
    let is_visible = |name: &ByteString| match is_list {
        true => cx.authorize_silently(Operation::Describe, ResourceType::Topic, name),
        false => cx.authorize_topic(Operation::Describe, name),
    };
    let (start, mut first) = match request.cursor {
        Some(cursor) => (cursor.topic_name, cursor.partition_index.max(0)),
        None => (ByteString::new(), 0),
    };
    let limit = node.config().max_request_partition_size_limit;
    let mut room = request.response_partition_limit.clamp(1, limit.max(1)) as usize;
    let mut response = DescribeTopicPartitionsResponse::default();
    let names = names.into_iter().filter(|name| *name >= start);
    let (names, hidden): (Vec<ByteString>, Vec<ByteString>) = names.partition(is_visible);
    for name in names {
        if room == 0 {
            response.next_cursor = Some(Cursor {
                topic_name: name,
                partition_index: 0,
                ..Default::default()
            });
            break;
        }
        let skip = if name == start {
            std::mem::take(&mut first) as usize
        } else {
            0
        };
        let topic = node.topics().by_name(&name).cloned();
        let Some(topic) = topic else {
            response.topics.push(DescribeTopicPartitionsResponseTopic {
                error_code: ErrorCode::UnknownTopicOrPartition.code(),
                topic_authorized_operations: cx.authorized_operations(ResourceType::Topic, &name),
                name: Some(name),
                ..Default::default()
            });
            continue;
        };
        let described = DescribeTopicPartitionsResponseTopic {
            topic_authorized_operations: cx.authorized_operations(ResourceType::Topic, &name),
            ..describe(node, &topic, skip, room)
        };
        let next = skip + described.partitions.len();
        room -= described.partitions.len();
        response.topics.push(described);
        if next < topic.partitions.len() {
            response.next_cursor = Some(Cursor {
                topic_name: name,
                partition_index: next as i32,
                ..Default::default()
            });
            break;
        }
    }
    if !is_list {
        response.topics.extend(hidden.into_iter().map(denied));
    }
    Outcome::Ready(response)
}

fn denied(name: ByteString) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        name: Some(name),
        topic_authorized_operations: NOT_REQUESTED,
        ..Default::default()
    }
}

fn describe(node: &Node, topic: &Topic, skip: usize, room: usize) -> DescribeTopicPartitionsResponseTopic {
    let id = node.config().node_id;
    let partitions = topic.partitions.iter().skip(skip).take(room).map(|partition| {
        DescribeTopicPartitionsResponsePartition {
            partition_index: partition.index,
            leader_id: id,
            leader_epoch: node.leader_epoch,
            replica_nodes: vec![id],
            isr_nodes: if partition.is_online() { vec![id] } else { vec![] },
            offline_replicas: if partition.is_online() { vec![] } else { vec![id] },
            // Null is allowed by the protocol, but Kafka's admin client does not expect it.
            eligible_leader_replicas: Some(vec![]),
            last_known_elr: Some(vec![]),
            ..Default::default()
        }
    });
    DescribeTopicPartitionsResponseTopic {
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        is_internal: topic.is_internal(),
        partitions: partitions.collect(),
        ..Default::default()
    }
}
