//! OffsetForLeaderEpoch 2–4.

use milena_machines::authorizer::Operation;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
        offset_for_leader_epoch_request::OffsetForLeaderPartition,
        offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult},
    },
};

use super::common::{Outcome, RequestContext};
use crate::{node::Node, topics::Topic};

/// Epoch and end offset of an epoch that this log does not know.
const UNDEFINED: (i32, i64) = (-1, -1);

pub(super) fn handle(
    cx: &RequestContext<'_>,
    request: OffsetForLeaderEpochRequest,
) -> Outcome<OffsetForLeaderEpochResponse> {
    let node = cx.node;
    let may_see_all = cx.authorize_cluster_silently(Operation::ClusterAction);
    let topics = request.topics.into_iter().map(|requested| {
        let is_allowed = may_see_all || cx.authorize_topic(Operation::Describe, &requested.topic);
        let topic = node.topics().by_name(&requested.topic).cloned();
        let partitions = requested.partitions.iter().map(|partition| {
            let found = match is_allowed {
                true => look_up(node, topic.as_deref(), partition),
                false => Err(ErrorCode::TopicAuthorizationFailed),
            };
            let ((leader_epoch, end_offset), error) = match found {
                Ok(found) => (found, ErrorCode::None),
                Err(error) => (UNDEFINED, error),
            };
            EpochEndOffset {
                error_code: error.code(),
                partition: partition.partition,
                leader_epoch,
                end_offset,
                ..Default::default()
            }
        });
        OffsetForLeaderTopicResult {
            partitions: partitions.collect(),
            topic: requested.topic,
            ..Default::default()
        }
    });
    Outcome::Ready(OffsetForLeaderEpochResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

fn look_up(node: &Node, topic: Option<&Topic>, requested: &OffsetForLeaderPartition) -> Result<(i32, i64), ErrorCode> {
    let partition = topic.and_then(|topic| topic.partition(requested.partition));
    let partition = partition.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    node.check_leader_epoch(requested.current_leader_epoch)?;
    partition.log.check_online().map_err(|error| error.error_code())?;
    let end = partition
        .log
        .view()
        .end_of_epoch(requested.leader_epoch, node.leader_epoch);
    Ok(end.unwrap_or(UNDEFINED))
}
