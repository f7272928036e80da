//! OffsetDelete 0.

use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        OffsetDeleteRequest, OffsetDeleteResponse,
        offset_delete_request::OffsetDeleteRequestTopic,
        offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic},
    },
};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, mut body: OffsetDeleteRequest) -> Outcome<OffsetDeleteResponse> {
    if let Err(error) = cx.check_group(Operation::Delete, &body.group_id) {
        return cx.refuse(&body, error);
    }
    let is_denied = |topic: &mut OffsetDeleteRequestTopic| !cx.authorize_topic(Operation::Read, &topic.name);
    let denied: Vec<OffsetDeleteResponseTopic> = body.topics.extract_if(.., is_denied).map(denied).collect();
    let group_id = body.group_id.clone();
    cx.request_group(&group_id, GroupRequest::OffsetDelete(body), move |outcome| {
        let mut response = response(outcome);
        if response.error_code == ErrorCode::None.code() {
            response.topics.extend(denied);
        }
        response
    })
}

fn denied(topic: OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| OffsetDeleteResponsePartition {
        partition_index: partition.partition_index,
        error_code: ErrorCode::TopicAuthorizationFailed.code(),
        ..Default::default()
    });
    OffsetDeleteResponseTopic {
        partitions: partitions.collect(),
        name: topic.name,
        ..Default::default()
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
