//! ConsumerGroupHeartbeat 0–1.

use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse},
};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    body: ConsumerGroupHeartbeatRequest,
) -> Outcome<ConsumerGroupHeartbeatResponse> {
    if let Err(error) = check_rights(cx, &body) {
        return cx.refuse(&body, error);
    }
    cx.request_group(&body.group_id.clone(), GroupRequest::ConsumerHeartbeat(body), response)
}

/// All topics of the subscription must be visible. A regular expression matches only those that are.
fn check_rights(cx: &RequestContext<'_>, body: &ConsumerGroupHeartbeatRequest) -> Result<(), ErrorCode> {
    cx.check_group(Operation::Read, &body.group_id)?;
    let mut subscribed = body.subscribed_topic_names.iter().flatten();
    match subscribed.all(|topic| cx.authorize_topic(Operation::Describe, topic)) {
        true => Ok(()),
        false => Err(ErrorCode::TopicAuthorizationFailed),
    }
}

fn response(outcome: GroupResult) -> ConsumerGroupHeartbeatResponse {
    match outcome {
        Ok(GroupReply::ConsumerHeartbeat(response)) => response,
        other => ConsumerGroupHeartbeatResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
