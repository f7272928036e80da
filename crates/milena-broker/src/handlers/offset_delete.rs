//! OffsetDelete 0.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::{Caller, Handled, groups::GroupOutcome, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: OffsetDeleteRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    caller.ask(&body.group_id.clone(), GroupRequest::OffsetDelete(body), response)
}

fn response(outcome: GroupOutcome) -> OffsetDeleteResponse {
    match outcome {
        Ok(GroupReply::OffsetDelete(response)) => response,
        other => OffsetDeleteResponse {
            error_code: error_of(&other).code(),
            ..Default::default()
        },
    }
}
