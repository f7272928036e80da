//! JoinGroup 0–9. The answer comes when all members have joined.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{JoinGroupRequest, JoinGroupResponse};

use super::{Caller, Handled, groups::GroupOutcome, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: JoinGroupRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    caller.ask(&body.group_id.clone(), GroupRequest::Join(body), response)
}

fn response(outcome: GroupOutcome) -> JoinGroupResponse {
    match outcome {
        Ok(GroupReply::Join(response)) => response,
        other => JoinGroupResponse {
            error_code: error_of(&other).code(),
            generation_id: -1,
            ..Default::default()
        },
    }
}
