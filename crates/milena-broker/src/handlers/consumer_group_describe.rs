//! ConsumerGroupDescribe 0–1.

use bytestring::ByteString;
use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, consumer_group_describe_response::DescribedGroup,
};

use super::{
    Caller, Handled,
    groups::GroupOutcome,
    operations::{OF_GROUP, if_asked},
    waiting::error_of,
};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: ConsumerGroupDescribeRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    let requests = body.group_ids.iter().map(|group_id| {
        let request = GroupRequest::ConsumerDescribe {
            group_id: group_id.clone(),
        };
        (&**group_id, request)
    });
    let authorized_operations = if_asked(body.include_authorized_operations, OF_GROUP);
    let group_ids = body.group_ids.clone();
    caller.ask_each(requests.collect(), move |outcomes| {
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

fn described(group_id: ByteString, outcome: GroupOutcome) -> DescribedGroup {
    match outcome {
        Ok(GroupReply::ConsumerDescribe(group)) => group,
        other => DescribedGroup {
            error_code: error_of(&other).code(),
            group_id,
            ..Default::default()
        },
    }
}
