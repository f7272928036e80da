//! Heartbeat 0–4.

use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: HeartbeatRequest) -> Outcome<HeartbeatResponse> {
    if let Err(error) = cx.check_group(Operation::Read, &body.group_id) {
        return cx.refuse(&body, error);
    }
    cx.request_group(&body.group_id.clone(), GroupRequest::Heartbeat(body), response)
}

fn response(outcome: GroupResult) -> HeartbeatResponse {
    match outcome {
        Ok(GroupReply::Heartbeat(response)) => response,
        other => HeartbeatResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
