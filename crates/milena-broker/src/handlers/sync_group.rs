//! SyncGroup 0–5. The answer comes when the leader has assigned.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{SyncGroupRequest, SyncGroupResponse};

use super::{Caller, Handled, groups::GroupOutcome, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: SyncGroupRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    caller.ask(&body.group_id.clone(), GroupRequest::Sync(body), response)
}

fn response(outcome: GroupOutcome) -> SyncGroupResponse {
    match outcome {
        Ok(GroupReply::Sync(response)) => response,
        other => SyncGroupResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
