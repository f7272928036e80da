//! OffsetDelete 0.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: OffsetDeleteRequest) -> Outcome<OffsetDeleteResponse> {
    cx.request_group(&body.group_id.clone(), GroupRequest::OffsetDelete(body), response)
}

fn response(outcome: GroupResult) -> OffsetDeleteResponse {
    match outcome {
        Ok(GroupReply::OffsetDelete(response)) => response,
        other => OffsetDeleteResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
