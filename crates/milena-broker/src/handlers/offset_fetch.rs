//! OffsetFetch 1–10. Versions up to 7 have one group; from version 10 on topics are named by id.

use bytestring::ByteString;
use milena_machines::group::{GroupReply, GroupRequest};
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
    // Rows of unknown topics are made here, for each group.
    let mut unknown = vec![];
    for group in &mut groups {
        unknown.push(if version >= versions::offset_fetch::TOPIC_IDS {
            name_topics(cx.node, group)
        } else {
            vec![]
        });
    }
    let requests = groups.iter().map(|group| {
        let request = GroupRequest::OffsetFetch {
            group: group.clone(),
            require_stable,
        };
        (&*group.group_id, request)
    });
    let node = cx.node.clone();
    let group_ids: Vec<ByteString> = groups.iter().map(|group| group.group_id.clone()).collect();
    cx.request_groups(requests.collect(), move |outcomes| {
        let groups = group_ids.into_iter().zip(outcomes).zip(unknown);
        let groups = groups.map(|((group_id, outcome), unknown)| {
            let mut group = described(group_id, outcome);
            if version >= versions::offset_fetch::TOPIC_IDS {
                identify_topics(&node, &mut group);
            }
            group.topics.extend(unknown);
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

/// Sets the names of topics that are named by id. Unknown topics are removed, and returned as rows.
fn name_topics(node: &Node, group: &mut OffsetFetchRequestGroup) -> Vec<OffsetFetchResponseTopics> {
    let mut unknown = vec![];
    let Some(topics) = &mut group.topics else {
        return unknown;
    };
    topics.retain_mut(|topic| {
        if let Some(found) = node.topics().by_id(topic.topic_id) {
            topic.name = found.name.clone();
            return true;
        }
        let partitions = topic
            .partition_indexes
            .iter()
            .map(|index| OffsetFetchResponsePartitions {
                partition_index: *index,
                committed_offset: -1,
                committed_leader_epoch: -1,
                metadata: Some(ByteString::new()),
                error_code: ErrorCode::UnknownTopicId.code(),
                ..Default::default()
            });
        unknown.push(OffsetFetchResponseTopics {
            topic_id: topic.topic_id,
            partitions: partitions.collect(),
            ..Default::default()
        });
        false
    });
    unknown
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
