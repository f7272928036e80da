//! ListOffsets 1–11.

use std::sync::Arc;

use milena_log::{Isolation, LogView, OffsetAndTime};
use milena_machines::authorizer::Operation;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        ListOffsetsRequest, ListOffsetsResponse,
        list_offsets_request::ListOffsetsPartition,
        list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
    },
};

use super::common::{NameCounts, Outcome, RequestContext, storage_error};
use crate::{node::Node, topics::Topic};

// Timestamps with a meaning of their own, in the order of the versions that have them.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

const UNKNOWN: OffsetAndTime = OffsetAndTime {
    offset: -1,
    timestamp: -1,
};

pub(super) fn handle(cx: &RequestContext<'_>, request: ListOffsetsRequest) -> Outcome<ListOffsetsResponse> {
    let node = cx.node;
    let version = cx.request.version;
    let isolation = match request.isolation_level {
        1 => Isolation::ReadCommitted,
        _ => Isolation::ReadUncommitted,
    };
    let topics = request.topics.into_iter().map(|requested| {
        let is_allowed = cx.authorize_topic(Operation::Describe, &requested.name);
        let topic = node.topics().by_name(&requested.name).cloned();
        let named = NameCounts::count(requested.partitions.iter().map(|partition| partition.partition_index));
        let partitions = requested.partitions.iter().map(|partition| {
            let once = named.check_once(&partition.partition_index, "partition");
            let found = match once {
                _ if !is_allowed => Err(ErrorCode::TopicAuthorizationFailed),
                Ok(()) => look_up(node, version, isolation, topic.as_ref(), partition),
                Err(refusal) => Err(refusal.code),
            };
            row(partition.partition_index, found)
        });
        ListOffsetsTopicResponse {
            partitions: partitions.collect(),
            name: requested.name,
            ..Default::default()
        }
    });
    Outcome::Ready(ListOffsetsResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

fn look_up(
    node: &Node,
    version: i16,
    isolation: Isolation,
    topic: Option<&Arc<Topic>>,
    requested: &ListOffsetsPartition,
) -> Result<(OffsetAndTime, i32), ErrorCode> {
    let partition = topic.and_then(|topic| topic.partition(requested.partition_index));
    let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    node.check_leader_epoch(requested.current_leader_epoch)?;
    let view = partition.log.view();
    view.check_online().map_err(|error| error.error_code())?;
    let found = find(&view, version, isolation, requested.timestamp)?;
    // Versions before 4 have no field for it.
    let epoch = view
        .epoch_at(found.offset)
        .filter(|_| version >= versions::list_offsets::LEADER_EPOCH);
    let leader_epoch = epoch.unwrap_or(-1);
    Ok((found, leader_epoch))
}

fn find(view: &LogView, version: i16, isolation: Isolation, timestamp: i64) -> Result<OffsetAndTime, ErrorCode> {
    let at = |offset| OffsetAndTime { offset, timestamp: -1 };
    let storage = |error| storage_error(&error, "offsets cannot be looked up");
    match timestamp {
        LATEST => Ok(at(view.end_for(isolation))),
        EARLIEST => Ok(at(view.log_start_offset)),
        MAX_TIMESTAMP if version >= versions::list_offsets::MAX_TIMESTAMP => {
            Ok(view.latest_record().map_err(storage)?.unwrap_or(UNKNOWN))
        }
        // There is no tiered storage, so the local log is the whole log.
        EARLIEST_LOCAL if version >= versions::list_offsets::EARLIEST_LOCAL => Ok(at(view.log_start_offset)),
        LATEST_TIERED if version >= versions::list_offsets::LATEST_TIERED => Ok(UNKNOWN),
        EARLIEST_PENDING_UPLOAD if version >= versions::list_offsets::EARLIEST_PENDING_UPLOAD => Ok(UNKNOWN),
        ..0 => Err(ErrorCode::UnsupportedVersion),
        timestamp => {
            let found = view.offset_for_time(timestamp).map_err(storage)?;
            let visible = found.filter(|found| found.offset < view.end_for(isolation));
            Ok(visible.unwrap_or(UNKNOWN))
        }
    }
}

fn row(partition_index: i32, found: Result<(OffsetAndTime, i32), ErrorCode>) -> ListOffsetsPartitionResponse {
    match found {
        Ok((found, leader_epoch)) => ListOffsetsPartitionResponse {
            partition_index,
            offset: found.offset,
            timestamp: found.timestamp,
            leader_epoch,
            ..Default::default()
        },
        Err(error) => ListOffsetsPartitionResponse {
            partition_index,
            error_code: error.code(),
            ..Default::default()
        },
    }
}
