//! OffsetFetch 1–10. Versions up to 7 have one group; from version 10 on topics are named by id.

use bytestring::ByteString;
use milena_machines::{
    authorizer::{Operation, ResourceType},
    group::{GroupReply, GroupRequest},
};
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{
        OffsetFetchRequest, OffsetFetchResponse,
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
        offset_fetch_response::{
            OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
            OffsetFetchResponseTopic, OffsetFetchResponseTopics,
        },
    },
};

use super::common::{GroupResult, Outcome, RequestContext, error_of};
use crate::node::Node;

pub(super) fn handle(cx: &RequestContext<'_>, body: OffsetFetchRequest) -> Outcome<OffsetFetchResponse> {
    let version = cx.request.version;
    let require_stable = body.require_stable;
    let mut groups = if version >= versions::offset_fetch::GROUPS {
        body.groups
    } else {
        vec![one_group(body)]
    };
    // Rows of topics that are unknown or hidden are made here, for each group.
    let mut refused = vec![];
    let mut replies = vec![];
    for group in &mut groups {
        if let Err(error) = cx.check_group(Operation::Describe, &group.group_id) {
            refused.push(vec![]);
            replies.push(Err(error));
            continue;
        }
        refused.push(take_refused(cx, group));
        let request = GroupRequest::OffsetFetch {
            group: group.clone(),
            require_stable,
        };
        replies.push(cx.node.groups.request(cx.node, &cx.source(), &group.group_id, request));
    }
    let detached = cx.detach();
    cx.respond_to_all(replies, move |outcomes| {
        let cx = detached.cx();
        let groups = groups.into_iter().zip(outcomes).zip(refused);
        let groups = groups.map(|((requested, outcome), refused)| {
            let mut group = described(requested.group_id, outcome);
            if requested.topics.is_none() {
                let topics = &mut group.topics;
                topics.retain(|topic| cx.authorize_silently(Operation::Describe, ResourceType::Topic, &topic.name));
            }
            if version >= versions::offset_fetch::TOPIC_IDS {
                identify_topics(cx.node, &mut group);
            }
            if group.error_code == ErrorCode::None.code() {
                group.topics.extend(refused);
            }
            group
        });
        response(version, groups.collect())
    })
}

/// The one group of older versions, in the form of newer ones.
fn one_group(body: OffsetFetchRequest) -> OffsetFetchRequestGroup {
    let topics = body.topics.map(|topics| {
        let topics = topics.into_iter().map(|topic| OffsetFetchRequestTopics {
            name: topic.name,
            partition_indexes: topic.partition_indexes,
            ..Default::default()
        });
        topics.collect()
    });
    OffsetFetchRequestGroup {
        group_id: body.group_id,
        topics,
        ..Default::default()
    }
}

/// Sets the names of topics that are named by id. Topics that are unknown or hidden are removed, and returned as rows.
fn take_refused(cx: &RequestContext<'_>, group: &mut OffsetFetchRequestGroup) -> Vec<OffsetFetchResponseTopics> {
    let has_ids = cx.request.version >= versions::offset_fetch::TOPIC_IDS;
    let mut refused = vec![];
    let Some(topics) = &mut group.topics else {
        return refused;
    };
    topics.retain_mut(|topic| {
        let found = has_ids.then(|| cx.node.topics().by_id(topic.topic_id).map(|found| found.name.clone()));
        let error = match found {
            Some(None) => ErrorCode::UnknownTopicId,
            found => {
                if let Some(name) = found.flatten() {
                    topic.name = name;
                }
                match cx.authorize_topic(Operation::Describe, &topic.name) {
                    true => return true,
                    false => ErrorCode::TopicAuthorizationFailed,
                }
            }
        };
        refused.push(failed_topic(topic, error, has_ids));
        false
    });
    refused
}

/// The row of a topic, with its id or its name, whichever the version has.
fn failed_topic(topic: &OffsetFetchRequestTopics, error: ErrorCode, has_ids: bool) -> OffsetFetchResponseTopics {
    let partitions = topic
        .partition_indexes
        .iter()
        .map(|index| OffsetFetchResponsePartitions {
            partition_index: *index,
            committed_offset: -1,
            committed_leader_epoch: -1,
            metadata: Some(ByteString::new()),
            error_code: error.code(),
            ..Default::default()
        });
    OffsetFetchResponseTopics {
        topic_id: topic.topic_id,
        name: if has_ids { ByteString::new() } else { topic.name.clone() },
        partitions: partitions.collect(),
        ..Default::default()
    }
}

/// Replaces names of topics by their ids. Topics that were deleted are removed.
fn identify_topics(node: &Node, group: &mut OffsetFetchResponseGroup) {
    group.topics.retain_mut(|topic| {
        let id = node.topics().by_name(&topic.name).map(|topic| topic.id);
        topic.name = ByteString::new();
        topic.topic_id = id.unwrap_or(Uuid::ZERO);
        id.is_some()
    });
}

fn described(group_id: ByteString, outcome: GroupResult) -> OffsetFetchResponseGroup {
    match outcome {
        Ok(GroupReply::OffsetFetch(group)) => group,
        other => OffsetFetchResponseGroup {
            group_id,
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}

fn response(version: i16, groups: Vec<OffsetFetchResponseGroup>) -> OffsetFetchResponse {
    if version >= versions::offset_fetch::GROUPS {
        return OffsetFetchResponse {
            groups,
            ..Default::default()
        };
    }
    let group = groups.into_iter().next().unwrap_or_default();
    OffsetFetchResponse {
        topics: group.topics.into_iter().map(older_topic).collect(),
        error_code: group.error_code,
        ..Default::default()
    }
}

fn older_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    let partitions = topic
        .partitions
        .into_iter()
        .map(|partition| OffsetFetchResponsePartition {
            partition_index: partition.partition_index,
            committed_offset: partition.committed_offset,
            committed_leader_epoch: partition.committed_leader_epoch,
            metadata: partition.metadata,
            error_code: partition.error_code,
            ..Default::default()
        });
    OffsetFetchResponseTopic {
        name: topic.name,
        partitions: partitions.collect(),
        ..Default::default()
    }
}
