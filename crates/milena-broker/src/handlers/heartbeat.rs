//! Heartbeat 0–4.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{HeartbeatRequest, HeartbeatResponse};

use super::{Caller, Handled, groups::GroupOutcome, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: HeartbeatRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    caller.ask(&body.group_id.clone(), GroupRequest::Heartbeat(body), response)
}

fn response(outcome: GroupOutcome) -> HeartbeatResponse {
    match outcome {
        Ok(GroupReply::Heartbeat(response)) => response,
        other => HeartbeatResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
