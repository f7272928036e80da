//! Metadata 0–13. A missing topic that may be created is created at once, so the first response has it.

use std::sync::Arc;

use bytestring::ByteString;
use milena_machines::authorizer::{Operation, ResourceType};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        MetadataRequest, MetadataResponse,
        metadata_request::MetadataRequestTopic,
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
};

use super::common::{NOT_REQUESTED, Outcome, RequestContext};
use crate::{
    node::Node,
    quotas::MutationPermits,
    topics::{Topic, is_internal, name_problem},
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
        None => {
            let is_visible =
                |topic: &&Arc<Topic>| cx.authorize_silently(Operation::Describe, ResourceType::Topic, &topic.name);
            let topics = node.topics();
            topics
                .iter()
                .filter(is_visible)
                .map(|topic| describe(node, topic))
                .collect()
        }
        Some(requested) => requested
            .into_iter()
            .map(|requested| find(cx, requested, may_create.then_some(&mut permits)))
            .collect(),
    };
    if request.include_topic_authorized_operations {
        for topic in topics
            .iter_mut()
            .filter(|topic| topic.error_code == ErrorCode::None.code())
        {
            let name = topic.name.clone().unwrap_or_default();
            topic.topic_authorized_operations = cx.authorized_operations(ResourceType::Topic, &name);
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
        cluster_authorized_operations: cx.cluster_operations(request.include_cluster_authorized_operations),
        ..Default::default()
    })
}

/// A topic, which is created if there are permits for it.
fn find(
    cx: &RequestContext<'_>,
    requested: MetadataRequestTopic,
    permits: Option<&mut MutationPermits<'_>>,
) -> MetadataResponseTopic {
    let node = cx.node;
    let id = requested.topic_id;
    let found = node
        .topics()
        .called(requested.name.as_deref().unwrap_or_default(), id)
        .cloned();
    // Java's clients name a topic by id with an empty name instead of null.
    let name = requested.name.filter(|_| id.is_zero());
    let known_name = name.as_ref().or_else(|| found.as_ref().map(|topic| &topic.name));
    let is_denied = |name: &ByteString| !cx.authorize_topic(Operation::Describe, name);
    if known_name.is_some_and(is_denied) {
        // An id is no secret, so the response confirms it. A name is not confirmed: it gets no id.
        return MetadataResponseTopic {
            topic_id: id,
            ..unknown(name, ErrorCode::TopicAuthorizationFailed)
        };
    }
    match (found, name, permits) {
        (Some(topic), ..) => describe(node, &topic),
        (None, None, _) => MetadataResponseTopic {
            topic_id: id,
            ..unknown(None, ErrorCode::UnknownTopicId)
        },
        (None, Some(name), Some(_)) if is_creation_denied(cx, &name) => MetadataResponseTopic {
            is_internal: is_internal(&name),
            ..unknown(Some(name), ErrorCode::TopicAuthorizationFailed)
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

/// Whether a missing topic would be created if the client had the right.
fn is_creation_denied(cx: &RequestContext<'_>, name: &ByteString) -> bool {
    cx.node.config().auto_create_topics_enable
        && !cx.authorize_cluster_silently(Operation::Create)
        && !cx.authorize_topic(Operation::Create, name)
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
