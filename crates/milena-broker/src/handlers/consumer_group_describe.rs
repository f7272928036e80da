//! ConsumerGroupDescribe 0–1.

use bytestring::ByteString;
use milena_machines::{
    authorizer::{Operation, ResourceType},
    group::{GroupReply, GroupRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, consumer_group_describe_response::DescribedGroup,
    },
};

use super::common::{GroupResult, NOT_REQUESTED, Outcome, RequestContext, error_of};

const HIDDEN_TOPICS: &str = "The group has described topic(s) that the client is not authorized to describe.";

pub(super) fn handle(
    cx: &RequestContext<'_>,
    body: ConsumerGroupDescribeRequest,
) -> Outcome<ConsumerGroupDescribeResponse> {
    let replies = body.group_ids.iter().map(|group_id| {
        cx.check_group(Operation::Describe, group_id)?;
        let request = GroupRequest::ConsumerDescribe {
            group_id: group_id.clone(),
        };
        cx.node.groups.request(cx.node, &cx.source(), group_id, request)
    });
    let group_ids = body.group_ids.clone();
    let detached = cx.detach();
    cx.respond_to_all(replies.collect(), move |outcomes| {
        let groups = group_ids.into_iter().zip(outcomes).map(|(group_id, outcome)| {
            let group = described(group_id, outcome);
            visible(&detached.cx(), group, body.include_authorized_operations)
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

/// The group, if the client may see all topics that are assigned in it.
fn visible(cx: &RequestContext<'_>, group: DescribedGroup, with_operations: bool) -> DescribedGroup {
    let is_hidden = {
        let members = group.members.iter();
        let assignments = members.flat_map(|member| [&member.assignment, &member.target_assignment]);
        let mut topics = assignments.flat_map(|assignment| &assignment.topic_partitions);
        topics.any(|topic| !cx.authorize_topic(Operation::Describe, &topic.topic_name))
    };
    if is_hidden {
        return DescribedGroup {
            error_code: ErrorCode::TopicAuthorizationFailed.code(),
            error_message: Some(HIDDEN_TOPICS.into()),
            group_id: group.group_id,
            authorized_operations: NOT_REQUESTED,
            ..Default::default()
        };
    }
    let with_operations = with_operations && group.error_code == ErrorCode::None.code();
    DescribedGroup {
        authorized_operations: match with_operations {
            true => cx.authorized_operations(ResourceType::Group, &group.group_id),
            false => NOT_REQUESTED,
        },
        ..group
    }
}
