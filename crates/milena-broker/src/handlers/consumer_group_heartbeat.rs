//! ConsumerGroupHeartbeat 0–1.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    body: ConsumerGroupHeartbeatRequest,
) -> Outcome<ConsumerGroupHeartbeatResponse> {
    cx.request_group(&body.group_id.clone(), GroupRequest::ConsumerHeartbeat(body), response)
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
