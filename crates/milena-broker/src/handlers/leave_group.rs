//! LeaveGroup 0–5.

use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: LeaveGroupRequest) -> Outcome<LeaveGroupResponse> {
    if let Err(error) = cx.check_group(Operation::Read, &body.group_id) {
        return cx.refuse(&body, error);
    }
    cx.request_group(&body.group_id.clone(), GroupRequest::Leave(body), response)
}

fn response(outcome: GroupResult) -> LeaveGroupResponse {
    match outcome {
        Ok(GroupReply::Leave(response)) => response,
        other => LeaveGroupResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
