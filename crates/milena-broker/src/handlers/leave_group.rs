//! LeaveGroup 0–5.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{LeaveGroupRequest, LeaveGroupResponse};

use super::{Caller, Handled, groups::GroupOutcome, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: LeaveGroupRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    caller.ask(&body.group_id.clone(), GroupRequest::Leave(body), response)
}

fn response(outcome: GroupOutcome) -> LeaveGroupResponse {
    match outcome {
        Ok(GroupReply::Leave(response)) => response,
        other => LeaveGroupResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
