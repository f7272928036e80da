//! SyncGroup 0–5. The response is sent when the leader has sent the assignment.

use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::messages::{SyncGroupRequest, SyncGroupResponse};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: SyncGroupRequest) -> Outcome<SyncGroupResponse> {
    if let Err(error) = cx.check_group(Operation::Read, &body.group_id) {
        return cx.refuse(&body, error);
    }
    cx.request_group(&body.group_id.clone(), GroupRequest::Sync(body), response)
}

fn response(outcome: GroupResult) -> SyncGroupResponse {
    match outcome {
        Ok(GroupReply::Sync(response)) => response,
        other => SyncGroupResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
