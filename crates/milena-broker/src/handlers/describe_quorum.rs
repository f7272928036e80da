//! DescribeQuorum 0–2. The quorum is this node, which leads it. Offsets are bytes of the metadata log: it has no others.

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        DescribeQuorumRequest, DescribeQuorumResponse,
        describe_quorum_response::{Listener, Node as QuorumNode, PartitionData, ReplicaState, TopicData},
    },
};

use super::common::{Outcome, RequestContext};
use crate::node::Node;

const METADATA_TOPIC: &str = "__cluster_metadata";
/// The name that Kafka's nodes give to the listener of the quorum.
const LISTENER: ByteString = ByteString::from_static("CONTROLLER");

pub(super) fn handle(cx: &RequestContext<'_>, request: DescribeQuorumRequest) -> Outcome<DescribeQuorumResponse> {
    let node = cx.node;
    let version = cx.request.version;
    let id = node.config().node_id;
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            match &*topic.topic_name == METADATA_TOPIC && partition.partition_index == 0 {
                true => quorum(node, id),
                false => unknown(partition.partition_index),
            }
        });
        TopicData {
            partitions: partitions.collect(),
            topic_name: topic.topic_name.clone(),
            ..Default::default()
        }
    });
    Outcome::Ready(DescribeQuorumResponse {
        error_message: None,
        topics: topics.collect(),
        nodes: if version >= versions::describe_quorum::NODES {
            vec![this_node(cx, id)]
        } else {
            vec![]
        },
        ..Default::default()
    })
}

fn this_node(cx: &RequestContext<'_>, node_id: i32) -> QuorumNode {
    let (host, port) = cx.advertised();
    QuorumNode {
        node_id,
        listeners: vec![Listener {
            name: LISTENER,
            host,
            port,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn quorum(node: &Node, id: i32) -> PartitionData {
    let end = i64::try_from(node.metadata_size()).unwrap_or(i64::MAX);
    let now_ms = node.now_ms();
    PartitionData {
        error_message: None,
        leader_id: id,
        leader_epoch: node.leader_epoch,
        high_watermark: end,
        current_voters: vec![ReplicaState {
            replica_id: id,
            log_end_offset: end,
            last_fetch_timestamp: now_ms,
            last_caught_up_timestamp: now_ms,
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn unknown(partition_index: i32) -> PartitionData {
    PartitionData {
        partition_index,
        error_code: ErrorCode::UnknownTopicOrPartition.code(),
        error_message: Some(format!("only partition 0 of {METADATA_TOPIC} has a quorum").into()),
        leader_id: -1,
        ..Default::default()
    }
}
