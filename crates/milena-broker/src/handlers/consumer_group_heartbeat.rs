//! ConsumerGroupHeartbeat 0–1.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::{Caller, Handled, groups::GroupOutcome, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: ConsumerGroupHeartbeatRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    caller.ask(&body.group_id.clone(), GroupRequest::ConsumerHeartbeat(body), response)
}

fn response(outcome: GroupOutcome) -> ConsumerGroupHeartbeatResponse {
    match outcome {
        Ok(GroupReply::ConsumerHeartbeat(response)) => response,
        other => ConsumerGroupHeartbeatResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
