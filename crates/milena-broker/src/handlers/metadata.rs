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
    quotas::MutationPermits,
    topics::{Topic, name_problem},
};

pub(super) fn handle(cx: &RequestContext<'_>, request: MetadataRequest) -> Outcome<MetadataResponse> {
    let node = cx.node;
    let version = cx.request.version;
    // An empty list means all topics in version 0, null does in later ones.
    let requested = request.topics.filter(|topics| version > 0 || !topics.is_empty());
    let may_create = request.allow_auto_topic_creation || version < versions::metadata::AUTO_CREATION;
    // As Kafka forwards the creation in its newest version, it is refused while the client is over its quota.
    let mut permits = MutationPermits::new(cx.request.charge(), true);
    let mut topics: Vec<MetadataResponseTopic> = match requested {
        None => node.topics().iter().map(|topic| describe(node, topic)).collect(),
        Some(requested) => requested
            .into_iter()
            .map(|requested| find(node, requested, may_create.then_some(&mut permits)))
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
    Outcome::Ready(MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: config.node_id,
            host: node.host.clone().into(),
            port: i32::from(node.port),
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

/// A topic, which is created if there are permits for it.
fn find(
    node: &Node,
    requested: MetadataRequestTopic,
    permits: Option<&mut MutationPermits<'_>>,
) -> MetadataResponseTopic {
    let id = requested.topic_id;
    let found = node
        .topics()
        .called(requested.name.as_deref().unwrap_or_default(), id)
        .cloned();
    // Java's clients name a topic by id with an empty name instead of null.
    let name = requested.name.filter(|_| id.is_zero());
    match (found, name, permits) {
        (Some(topic), ..) => describe(node, &topic),
        (None, None, _) => MetadataResponseTopic {
            topic_id: id,
            ..unknown(None, ErrorCode::UnknownTopicId)
        },
        (None, Some(name), _) if name_problem(&name).is_some() => unknown(Some(name), ErrorCode::InvalidTopicException),
        (None, Some(name), Some(permits)) => match node.auto_create_topic(&name, permits) {
            Ok(topic) => describe(node, &topic),
            // Clients do not expect the error here; they retry after this one.
            Err(refusal) if refusal.code == ErrorCode::ThrottlingQuotaExceeded => {
                unknown(Some(name), ErrorCode::UnknownTopicOrPartition)
            }
            Err(refusal) => unknown(Some(name), refusal.code),
        },
        (None, Some(name), None) => unknown(Some(name), ErrorCode::UnknownTopicOrPartition),
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
