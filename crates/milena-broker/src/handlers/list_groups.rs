//! ListGroups 0–5.

use milena_machines::{
    authorizer::{Operation, ResourceType},
    group::{GroupReply, GroupRequest},
};
use milena_wire::messages::{ListGroupsRequest, ListGroupsResponse};

use super::common::{GroupResult, Outcome, RequestContext};

pub(super) fn handle(cx: &RequestContext<'_>, body: ListGroupsRequest) -> Outcome<ListGroupsResponse> {
    let request = GroupRequest::List {
        states: body.states_filter,
        types: body.types_filter,
    };
    match cx.node.groups.request_all(cx.node, &cx.source(), &request) {
        Ok(replies) => {
            let detached = cx.detach();
            cx.respond_to_all(replies.into_iter().map(Ok).collect(), move |outcomes| {
                let mut response = response(outcomes);
                let cx = detached.cx();
                if !cx.authorize_cluster_silently(Operation::Describe) {
                    let groups = &mut response.groups;
                    groups.retain(|group| {
                        cx.authorize_silently(Operation::Describe, ResourceType::Group, &group.group_id)
                    });
                }
                response
            })
        }
        Err(error) => {
            let response = ListGroupsResponse {
                error_code: error.code(),
                ..Default::default()
            };
            Outcome::Ready(response)
        }
    }
}

fn response(outcomes: Vec<GroupResult>) -> ListGroupsResponse {
    let mut response = ListGroupsResponse::default();
    for outcome in outcomes {
        match outcome {
            Ok(GroupReply::List(groups)) => response.groups.extend(groups),
            Ok(_) => {}
            Err(error) => response.error_code = error.code(),
        }
    }
    response
}
