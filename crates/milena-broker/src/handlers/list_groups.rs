//! ListGroups 0–5.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{ListGroupsRequest, ListGroupsResponse};

use super::{Caller, Handled, groups::GroupOutcome, reply};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: ListGroupsRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    let request = GroupRequest::List {
        states: body.states_filter,
        types: body.types_filter,
    };
    match caller.node.groups.ask_all(caller.node, &caller.asking(), &request) {
        Ok(answers) => caller.wait_for_all(answers.into_iter().map(Ok).collect(), response),
        Err(error) => {
            let response = ListGroupsResponse {
                error_code: error.code(),
                ..Default::default()
            };
            reply(caller.request, response, vec![])
        }
    }
}

fn response(outcomes: Vec<GroupOutcome>) -> ListGroupsResponse {
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
