//! Error responses of the APIs of share groups.

use bytestring::ByteString;

use super::rows;
use crate::{errors::ErrorCode, messages::*};

pub(crate) fn share_group_describe(
    request: &ShareGroupDescribeRequest,
    _: i16,
    error: ErrorCode,
) -> Option<ShareGroupDescribeResponse> {
    let group = |group_id: &ByteString| share_group_describe_response::DescribedGroup {
        group_id: group_id.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(ShareGroupDescribeResponse {
        groups: rows(&request.group_ids, group),
        ..Default::default()
    })
}

pub(crate) fn describe_share_group_offsets(
    request: &DescribeShareGroupOffsetsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<DescribeShareGroupOffsetsResponse> {
    use describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
    use describe_share_group_offsets_response::DescribeShareGroupOffsetsResponseGroup;
    let group = |group: &DescribeShareGroupOffsetsRequestGroup| DescribeShareGroupOffsetsResponseGroup {
        group_id: group.group_id.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(DescribeShareGroupOffsetsResponse {
        groups: rows(&request.groups, group),
        ..Default::default()
    })
}

/// The APIs between brokers that keep the state of share groups have one form: a row for each partition of a topic.
macro_rules! state_api {
    ($function:ident, $request:ident($from:ident::$data:ident) => $response:ident($to:ident::$result:ident)) => {
        pub(crate) fn $function(request: &$request, _: i16, error: ErrorCode) -> Option<$response> {
            use $to::{PartitionResult, $result};
            let topic = |topic: &$from::$data| {
                let partitions = topic.partitions.iter().map(|partition| PartitionResult {
                    partition: partition.partition,
                    error_code: error.code(),
                    ..Default::default()
                });
                $result {
                    topic_id: topic.topic_id,
                    partitions: partitions.collect(),
                    ..Default::default()
                }
            };
            Some($response {
                results: rows(&request.topics, topic),
                ..Default::default()
            })
        }
    };
}

state_api!(
    initialize_share_group_state,
    InitializeShareGroupStateRequest(initialize_share_group_state_request::InitializeStateData) => InitializeShareGroupStateResponse(initialize_share_group_state_response::InitializeStateResult)
);

state_api!(
    read_share_group_state,
    ReadShareGroupStateRequest(read_share_group_state_request::ReadStateData) => ReadShareGroupStateResponse(read_share_group_state_response::ReadStateResult)
);

state_api!(
    read_share_group_state_summary,
    ReadShareGroupStateSummaryRequest(read_share_group_state_summary_request::ReadStateSummaryData) => ReadShareGroupStateSummaryResponse(read_share_group_state_summary_response::ReadStateSummaryResult)
);

state_api!(
    write_share_group_state,
    WriteShareGroupStateRequest(write_share_group_state_request::WriteStateData) => WriteShareGroupStateResponse(write_share_group_state_response::WriteStateResult)
);

state_api!(
    delete_share_group_state,
    DeleteShareGroupStateRequest(delete_share_group_state_request::DeleteStateData) => DeleteShareGroupStateResponse(delete_share_group_state_response::DeleteStateResult)
);
