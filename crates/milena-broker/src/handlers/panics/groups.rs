//! The error in answers about groups.

use milena_wire::messages::*;

use super::CODE;

/// From this version on FindCoordinator and OffsetFetch ask for several at once.
const KEYS_SINCE: i16 = 4;
const GROUPS_SINCE: i16 = 8;

pub(super) fn find_coordinator(version: i16, request: FindCoordinatorRequest) -> Option<FindCoordinatorResponse> {
    if version < KEYS_SINCE {
        return Some(FindCoordinatorResponse {
            error_code: CODE,
            node_id: -1,
            port: -1,
            ..Default::default()
        });
    }
    let keys = request.coordinator_keys.into_iter();
    let coordinators = keys.map(|key| find_coordinator_response::Coordinator {
        key,
        node_id: -1,
        port: -1,
        error_code: CODE,
        ..Default::default()
    });
    Some(FindCoordinatorResponse {
        coordinators: coordinators.collect(),
        ..Default::default()
    })
}

pub(super) fn offset_commit(request: OffsetCommitRequest) -> Option<OffsetCommitResponse> {
    use offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
    let topics = request.topics.into_iter().map(|topic| OffsetCommitResponseTopic {
        name: topic.name,
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(OffsetCommitResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

pub(super) fn offset_fetch(version: i16, request: OffsetFetchRequest) -> Option<OffsetFetchResponse> {
    use offset_fetch_response::{OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponseTopic};
    if version >= GROUPS_SINCE {
        let groups = request.groups.into_iter().map(|group| OffsetFetchResponseGroup {
            group_id: group.group_id,
            error_code: CODE,
            ..Default::default()
        });
        return Some(OffsetFetchResponse {
            groups: groups.collect(),
            ..Default::default()
        });
    }
    let topics = request.topics.unwrap_or_default().into_iter();
    let topics = topics.map(|topic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic
            .partition_indexes
            .iter()
            .map(|partition| OffsetFetchResponsePartition {
                partition_index: *partition,
                committed_offset: -1,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(OffsetFetchResponse {
        topics: topics.collect(),
        error_code: CODE,
        ..Default::default()
    })
}

pub(super) fn describe_groups(request: DescribeGroupsRequest) -> Option<DescribeGroupsResponse> {
    let groups = request.groups.into_iter();
    let groups = groups.map(|group_id| describe_groups_response::DescribedGroup {
        group_id,
        error_code: CODE,
        ..Default::default()
    });
    Some(DescribeGroupsResponse {
        groups: groups.collect(),
        ..Default::default()
    })
}

pub(super) fn consumer_group_describe(request: ConsumerGroupDescribeRequest) -> Option<ConsumerGroupDescribeResponse> {
    let groups = request.group_ids.into_iter();
    let groups = groups.map(|group_id| consumer_group_describe_response::DescribedGroup {
        group_id,
        error_code: CODE,
        ..Default::default()
    });
    Some(ConsumerGroupDescribeResponse {
        groups: groups.collect(),
        ..Default::default()
    })
}

pub(super) fn delete_groups(request: DeleteGroupsRequest) -> Option<DeleteGroupsResponse> {
    let groups = request.groups_names.into_iter();
    let results = groups.map(|group_id| delete_groups_response::DeletableGroupResult {
        group_id,
        error_code: CODE,
        ..Default::default()
    });
    Some(DeleteGroupsResponse {
        results: results.collect(),
        ..Default::default()
    })
}
