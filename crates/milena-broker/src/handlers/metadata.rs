//! Metadata 0–13. A missing topic that may be created is created at once, so the first response has it.

use std::sync::Arc;

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        MetadataRequest, MetadataResponse,
        metadata_request::MetadataRequestTopic,
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
};

use super::common::{NOT_REQUESTED, OF_CLUSTER, OF_TOPIC, Outcome, RequestContext, if_requested};
use crate::{
    node::Node,
    topics::{Topic, name_problem},
};

pub(super) fn handle(cx: &RequestContext<'_>, request: MetadataRequest) -> Outcome<MetadataResponse> {
    let node = cx.node;
    let version = cx.request.version;
    // An empty list means all topics in version 0, null does in later ones.
    let requested = request.topics.filter(|topics| version > 0 || !topics.is_empty());
    let may_create = request.allow_auto_topic_creation || version < versions::metadata::AUTO_CREATION;
    let mut topics: Vec<MetadataResponseTopic> = match requested {
        None => node.topics().iter().map(|topic| describe(node, topic)).collect(),
        Some(requested) => requested
            .into_iter()
            .map(|requested| find(node, requested, may_create))
            .collect(),
    };
    if request.include_topic_authorized_operations {
        for topic in topics
            .iter_mut()
            .filter(|topic| topic.error_code == ErrorCode::None.code())
        {
            topic.topic_authorized_operations = OF_TOPIC;
        }
    }
    let config = node.config();
    let (host, port) = cx.advertised();
    Outcome::Ready(MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: config.node_id,
            host,
            port: i32::from(port),
            rack: config.rack.clone().map(ByteString::from),
            ..Default::default()
        }],
        cluster_id: Some(node.cluster_id.clone().into()),
        controller_id: config.node_id,
        topics,
        cluster_authorized_operations: if_requested(request.include_cluster_authorized_operations, OF_CLUSTER),
        ..Default::default()
    })
}

fn find(node: &Node, requested: MetadataRequestTopic, may_create: bool) -> MetadataResponseTopic {
    let id = requested.topic_id;
    let found = node
        .topics()
        .called(requested.name.as_deref().unwrap_or_default(), id)
        .cloned();
    // Java's clients name a topic by id with an empty name instead of null.
    let name = requested.name.filter(|_| id.is_zero());
    match (found, name) {
        (Some(topic), _) => describe(node, &topic),
        (None, None) => MetadataResponseTopic {
            topic_id: id,
            ..unknown(None, ErrorCode::UnknownTopicId)
        },
        (None, Some(name)) if name_problem(&name).is_some() => unknown(Some(name), ErrorCode::InvalidTopicException),
        (None, Some(name)) if may_create => match node.auto_create_topic(&name) {
            Ok(topic) => describe(node, &topic),
            Err(refusal) => unknown(Some(name), refusal.code),
        },
        (None, Some(name)) => unknown(Some(name), ErrorCode::UnknownTopicOrPartition),
    }
}

fn unknown(name: Option<ByteString>, error: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: error.code(),
        name,
        topic_authorized_operations: NOT_REQUESTED,
        ..Default::default()
    }
}

fn describe(node: &Node, topic: &Arc<Topic>) -> MetadataResponseTopic {
    let id = node.config().node_id;
    let partitions = topic.partitions.iter().map(|partition| MetadataResponsePartition {
        partition_index: partition.index,
        leader_id: id,
        leader_epoch: node.leader_epoch,
        replica_nodes: vec![id],
        isr_nodes: if partition.is_online() { vec![id] } else { vec![] },
        offline_replicas: if partition.is_online() { vec![] } else { vec![id] },
        ..Default::default()
    });
    MetadataResponseTopic {
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        is_internal: topic.is_internal(),
        partitions: partitions.collect(),
        topic_authorized_operations: NOT_REQUESTED,
        ..Default::default()
    }
}
