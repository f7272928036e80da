//! DescribeGroups 0–6.

use bytestring::ByteString;
use milena_machines::{
    authorizer::{Operation, ResourceType},
    group::{GroupReply, GroupRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{DescribeGroupsRequest, DescribeGroupsResponse, describe_groups_response::DescribedGroup},
};

use super::common::{GroupResult, NOT_REQUESTED, Outcome, RequestContext, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: DescribeGroupsRequest) -> Outcome<DescribeGroupsResponse> {
    let replies = body.groups.iter().map(|group_id| {
        cx.check_group(Operation::Describe, group_id)?;
        let request = GroupRequest::Describe {
            group_id: group_id.clone(),
        };
        cx.node.groups.request(cx.node, &cx.source(), group_id, request)
    });
    let group_ids = body.groups.clone();
    let detached = cx.detach();
    cx.respond_to_all(replies.collect(), move |outcomes| {
        let groups = group_ids.into_iter().zip(outcomes).map(|(group_id, outcome)| {
            let group = described(group_id, outcome);
            let is_requested = body.include_authorized_operations && group.error_code == ErrorCode::None.code();
            DescribedGroup {
                authorized_operations: match is_requested {
                    true => detached
                        .cx()
                        .authorized_operations(ResourceType::Group, &group.group_id),
                    false => NOT_REQUESTED,
                },
                ..group
            }
        });
        DescribeGroupsResponse {
            groups: groups.collect(),
            ..Default::default()
        }
    })
}

fn described(group_id: ByteString, outcome: GroupResult) -> DescribedGroup {
    match outcome {
        Ok(GroupReply::Describe(group)) => group,
        other => DescribedGroup {
            error_code: error_of(&other).code(),
            group_id,
            ..Default::default()
        },
    }
}
