//! ConsumerGroupDescribe 0–1.

use bytestring::ByteString;
use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, consumer_group_describe_response::DescribedGroup,
};

use super::common::{GroupResult, OF_GROUP, Outcome, RequestContext, error_of, if_requested};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    body: ConsumerGroupDescribeRequest,
) -> Outcome<ConsumerGroupDescribeResponse> {
    let requests = body.group_ids.iter().map(|group_id| {
        let request = GroupRequest::ConsumerDescribe {
            group_id: group_id.clone(),
        };
        (&**group_id, request)
    });
    let authorized_operations = if_requested(body.include_authorized_operations, OF_GROUP);
    let group_ids = body.group_ids.clone();
    cx.request_groups(requests.collect(), move |outcomes| {
        let groups = group_ids.into_iter().zip(outcomes);
        let groups = groups.map(|(group_id, outcome)| DescribedGroup {
            authorized_operations,
            ..described(group_id, outcome)
        });
        ConsumerGroupDescribeResponse {
            groups: groups.collect(),
            ..Default::default()
        }
    })
}

fn described(group_id: ByteString, outcome: GroupResult) -> DescribedGroup {
    match outcome {
        Ok(GroupReply::ConsumerDescribe(group)) => group,
        other => DescribedGroup {
            error_code: error_of(&other).code(),
            group_id,
            ..Default::default()
        },
    }
}
