//! OffsetDelete 0. Topics that do not exist are refused here, before the coordinator.

use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        OffsetDeleteRequest, OffsetDeleteResponse,
        offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
        offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic},
    },
};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, mut body: OffsetDeleteRequest) -> Outcome<OffsetDeleteResponse> {
    if let Err(error) = cx.check_group(Operation::Delete, &body.group_id) {
        return cx.refuse(&body, error);
    }
    let refused = take_refused(cx, &mut body);
    let group_id = body.group_id.clone();
    cx.request_group(&group_id, GroupRequest::OffsetDelete(body), move |outcome| {
        let mut response = response(outcome);
        if response.error_code == ErrorCode::None.code() {
            response.topics.extend(refused);
        }
        response
    })
}

/// Removes topics that are unknown or that the client may not read, and returns them as rows.
fn take_refused(cx: &RequestContext<'_>, body: &mut OffsetDeleteRequest) -> Vec<OffsetDeleteResponseTopic> {
    let mut refused = vec![];
    body.topics.retain_mut(|topic| {
        if !cx.authorize_topic(Operation::Read, &topic.name) {
            refused.push(failed(topic, &topic.partitions, ErrorCode::TopicAuthorizationFailed));
            return false;
        }
        let found = cx.node.topics().by_name(&topic.name).cloned();
        let is_known = |index: i32| found.as_ref().is_some_and(|found| found.partition(index).is_some());
        let unknown = topic
            .partitions
            .extract_if(.., |partition| !is_known(partition.partition_index));
        let unknown: Vec<OffsetDeleteRequestPartition> = unknown.collect();
        if !unknown.is_empty() {
            refused.push(failed(topic, &unknown, ErrorCode::UnknownTopicOrPartition));
        }
        !topic.partitions.is_empty()
    });
    refused
}

fn failed(
    topic: &OffsetDeleteRequestTopic,
    partitions: &[OffsetDeleteRequestPartition],
    error: ErrorCode,
) -> OffsetDeleteResponseTopic {
    let partitions = partitions.iter().map(|partition| OffsetDeleteResponsePartition {
        partition_index: partition.partition_index,
        error_code: error.code(),
    });
    OffsetDeleteResponseTopic {
        partitions: partitions.collect(),
        name: topic.name.clone(),
    }
}

fn response(outcome: GroupResult) -> OffsetDeleteResponse {
    match outcome {
        Ok(GroupReply::OffsetDelete(response)) => response,
        other => OffsetDeleteResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
