//! JoinGroup 0–9. The response is sent when all members have joined.

use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::messages::{JoinGroupRequest, JoinGroupResponse};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: JoinGroupRequest) -> Outcome<JoinGroupResponse> {
    if let Err(error) = cx.check_group(Operation::Read, &body.group_id) {
        return cx.refuse(&body, error);
    }
    cx.request_group(&body.group_id.clone(), GroupRequest::Join(body), response)
}

fn response(outcome: GroupResult) -> JoinGroupResponse {
    match outcome {
        Ok(GroupReply::Join(response)) => response,
        other => JoinGroupResponse {
            error_code: error_of(&other).code(),
            generation_id: -1,
            ..Default::default()
        },
    }
}
