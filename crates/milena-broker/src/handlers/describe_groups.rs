//! DescribeGroups 0–6.

use bytestring::ByteString;
use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{DescribeGroupsRequest, DescribeGroupsResponse, describe_groups_response::DescribedGroup};

use super::common::{GroupResult, OF_GROUP, Outcome, RequestContext, error_of, if_requested};

pub(super) fn handle(cx: &RequestContext<'_>, body: DescribeGroupsRequest) -> Outcome<DescribeGroupsResponse> {
    let requests = body.groups.iter().map(|group_id| {
        let request = GroupRequest::Describe {
            group_id: group_id.clone(),
        };
        (&**group_id, request)
    });
    let authorized_operations = if_requested(body.include_authorized_operations, OF_GROUP);
    let group_ids = body.groups.clone();
    cx.request_groups(requests.collect(), move |outcomes| {
        let groups = group_ids.into_iter().zip(outcomes);
        let groups = groups.map(|(group_id, outcome)| DescribedGroup {
            authorized_operations,
            ..described(group_id, outcome)
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
