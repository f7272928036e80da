//! DeleteGroups 0–2.

use milena_machines::{
    authorizer::Operation,
    group::{GroupReply, GroupRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{DeleteGroupsRequest, DeleteGroupsResponse, delete_groups_response::DeletableGroupResult},
};

use super::common::{GroupResult, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: DeleteGroupsRequest) -> Outcome<DeleteGroupsResponse> {
    let replies = body.groups_names.iter().map(|group_id| {
        cx.check_group(Operation::Delete, group_id)?;
        let request = GroupRequest::Delete {
            group_id: group_id.clone(),
        };
        cx.node.groups.request(cx.node, &cx.source(), group_id, request)
    });
    let group_ids = body.groups_names.clone();
    cx.respond_to_all(replies.collect(), move |outcomes| {
        let results = group_ids.into_iter().zip(outcomes);
        let results = results.map(|(group_id, outcome)| DeletableGroupResult {
            group_id,
            error_code: error_code(&outcome),
            ..Default::default()
        });
        DeleteGroupsResponse {
            results: results.collect(),
            ..Default::default()
        }
    })
}

fn error_code(outcome: &GroupResult) -> i16 {
    match outcome {
        Ok(GroupReply::Delete(error)) => ErrorCode::code(*error),
        other => error_of(other).code(),
    }
}
