//! Error responses of the APIs about groups.

use bytestring::ByteString;

use super::rows;
use crate::{api::versions, errors::ErrorCode, messages::*};

pub(crate) fn find_coordinator(
    request: &FindCoordinatorRequest,
    version: i16,
    error: ErrorCode,
) -> Option<FindCoordinatorResponse> {
    if version < versions::find_coordinator::COORDINATORS {
        return Some(FindCoordinatorResponse {
            error_code: error.code(),
            node_id: -1,
            port: -1,
            ..Default::default()
        });
    }
    let coordinator = |key: &ByteString| find_coordinator_response::Coordinator {
        key: key.clone(),
        node_id: -1,
        port: -1,
        error_code: error.code(),
        ..Default::default()
    };
    Some(FindCoordinatorResponse {
        coordinators: rows(&request.coordinator_keys, coordinator),
        ..Default::default()
    })
}

pub(crate) fn offset_commit(request: &OffsetCommitRequest, _: i16, error: ErrorCode) -> Option<OffsetCommitResponse> {
    use offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
    let partition = |partition: &offset_commit_request::OffsetCommitRequestPartition| OffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &offset_commit_request::OffsetCommitRequestTopic| OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: rows(&topic.partitions, partition),
        ..Default::default()
    };
    Some(OffsetCommitResponse {
        topics: rows(&request.topics, topic),
        ..Default::default()
    })
}

/// Before version 8 the error is in each row too: version 1 has no other place for it.
pub(crate) fn offset_fetch(
    request: &OffsetFetchRequest,
    version: i16,
    error: ErrorCode,
) -> Option<OffsetFetchResponse> {
    use offset_fetch_response::{OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponseTopic};
    if version >= versions::offset_fetch::GROUPS {
        let group = |group: &offset_fetch_request::OffsetFetchRequestGroup| OffsetFetchResponseGroup {
            group_id: group.group_id.clone(),
            error_code: error.code(),
            ..Default::default()
        };
        return Some(OffsetFetchResponse {
            groups: rows(&request.groups, group),
            ..Default::default()
        });
    }
    let partition = |index: &i32| OffsetFetchResponsePartition {
        partition_index: *index,
        committed_offset: -1,
        error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &offset_fetch_request::OffsetFetchRequestTopic| OffsetFetchResponseTopic {
        name: topic.name.clone(),
        partitions: rows(&topic.partition_indexes, partition),
        ..Default::default()
    };
    Some(OffsetFetchResponse {
        topics: rows(request.topics.as_deref().unwrap_or_default(), topic),
        error_code: error.code(),
        ..Default::default()
    })
}

pub(crate) fn describe_groups(
    request: &DescribeGroupsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<DescribeGroupsResponse> {
    let group = |group_id: &ByteString| describe_groups_response::DescribedGroup {
        group_id: group_id.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(DescribeGroupsResponse {
        groups: rows(&request.groups, group),
        ..Default::default()
    })
}

pub(crate) fn consumer_group_describe(
    request: &ConsumerGroupDescribeRequest,
    _: i16,
    error: ErrorCode,
) -> Option<ConsumerGroupDescribeResponse> {
    let group = |group_id: &ByteString| consumer_group_describe_response::DescribedGroup {
        group_id: group_id.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(ConsumerGroupDescribeResponse {
        groups: rows(&request.group_ids, group),
        ..Default::default()
    })
}

pub(crate) fn streams_group_describe(
    request: &StreamsGroupDescribeRequest,
    _: i16,
    error: ErrorCode,
) -> Option<StreamsGroupDescribeResponse> {
    let group = |group_id: &ByteString| streams_group_describe_response::DescribedGroup {
        group_id: group_id.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(StreamsGroupDescribeResponse {
        groups: rows(&request.group_ids, group),
        ..Default::default()
    })
}

pub(crate) fn delete_groups(request: &DeleteGroupsRequest, _: i16, error: ErrorCode) -> Option<DeleteGroupsResponse> {
    let result = |group_id: &ByteString| delete_groups_response::DeletableGroupResult {
        group_id: group_id.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(DeleteGroupsResponse {
        results: rows(&request.groups_names, result),
        ..Default::default()
    })
}
